#include "server/server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "server/grpc_edge.h"
#include "server/http_listener.h"
#include "server/metrics_handler.h"
#include "server/oip_handler.h"

namespace lagoon {
namespace {

constexpr std::size_t kMaxRetainedBytes = std::size_t{32} << 20;
// How late grpc.health.v1 may follow InferenceCore::Ready.
constexpr std::chrono::milliseconds kHealthPeriod{200};
constexpr std::size_t kMaxScrapeBytes = 4096;

int ThreadsOf(const ServerOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 4);
}

class EdgeServer final : public Server {
 public:
  EdgeServer(InferenceCore& core, const ServerOptions& options)
      : core_(core),
        options_(options),
        pool_(ThreadsOf(options)),
        oip_(core, pool_),
        scrapes_(core),
        buffers_(BufferPool::Create(options.max_buffered_bytes, kMaxRetainedBytes)),
        health_timer_(boost::asio::make_strand(pool_.context())) {}

  ~EdgeServer() override {
    if (!stopped_) Stop(Now());
    pool_.Join();  // its handlers use members that are destroyed first
  }

  lagoon::Status Open();

  int http_port() const override { return http_->port(); }
  int grpc_port() const override { return grpc_->port(); }
  int metrics_port() const override { return metrics_->port(); }
  void Stop(TimePoint until) override;

 private:
  Result<std::shared_ptr<HttpListener>> Listen(const char* name, int port, HttpHandler& handler,
                                               std::size_t max_body_bytes);
  void FollowHealth();
  void StopHealth();
  static void StopListener(const std::shared_ptr<HttpListener>& listener, TimePoint until);

  InferenceCore& core_;
  const ServerOptions options_;
  IoPool pool_;  // sockets and timers must be destroyed before it
  OipHandler oip_;
  MetricsHandler scrapes_;
  std::shared_ptr<BufferPool> buffers_;
  Mutex health_mutex_;
  bool follow_health_ GUARDED_BY(health_mutex_) = true;
  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand> health_timer_;
  std::shared_ptr<HttpListener> http_;
  std::shared_ptr<HttpListener> metrics_;
  std::unique_ptr<GrpcEdge> grpc_;
  bool stopped_ = false;
};

Result<std::shared_ptr<HttpListener>> EdgeServer::Listen(const char* name, int port,
                                                         HttpHandler& handler,
                                                         std::size_t max_body_bytes) {
  HttpListener::Options options{name, options_.address, port, options_.http};
  options.limits.max_body_bytes = max_body_bytes;
  return HttpListener::Listen(pool_, handler, buffers_, std::move(options));
}

lagoon::Status EdgeServer::Open() {
  // Every port is bound before anything is served.
  LAGOON_ASSIGN_OR_RETURN(http_,
                          Listen("HTTP", options_.http_port, oip_, options_.http.max_body_bytes));
  LAGOON_ASSIGN_OR_RETURN(metrics_,
                          Listen("metrics", options_.metrics_port, scrapes_, kMaxScrapeBytes));
  GrpcEdge::Options grpc;
  grpc.address = options_.address;
  grpc.port = options_.grpc_port;
  grpc.max_message_bytes = options_.http.max_body_bytes;
  grpc.max_buffered_bytes = options_.max_buffered_bytes;
  LAGOON_ASSIGN_OR_RETURN(grpc_, GrpcEdge::Start(core_, pool_, grpc));
  http_->Start();
  metrics_->Start();
  FollowHealth();
  return {};
}

void EdgeServer::FollowHealth() {
  MutexLock lock(health_mutex_);
  if (!follow_health_) return;
  grpc_->SetServing(core_.Ready());
  health_timer_.expires_after(kHealthPeriod);
  health_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) FollowHealth();
  });
}

void EdgeServer::StopHealth() {
  MutexLock lock(health_mutex_);
  follow_health_ = false;
  grpc_->SetServing(false);
  boost::asio::post(health_timer_.get_executor(), [this] { health_timer_.cancel(); });
}

void EdgeServer::StopListener(const std::shared_ptr<HttpListener>& listener, TimePoint until) {
  if (!listener->WaitIdle(until)) {
    listener->Abort();
    listener->WaitIdle(kNoDeadline);
  }
  listener->Close();
}

void EdgeServer::Stop(TimePoint until) {
  stopped_ = true;
  if (grpc_ == nullptr) return;  // Open failed: nothing was ever served
  StopHealth();
  http_->Drain();
  grpc_->Stop(until);
  StopListener(http_, until);
  metrics_->Drain();
  StopListener(metrics_, std::max(until, Now() + std::chrono::milliseconds(100)));
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(InferenceCore& core, const ServerOptions& options) {
  auto server = std::make_unique<EdgeServer>(core, options);
  LAGOON_RETURN_IF_ERROR(server->Open());
  return Result<std::unique_ptr<Server>>(std::move(server));
}

}  // namespace lagoon
