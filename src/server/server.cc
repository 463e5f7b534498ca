#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "server/channel/channel_edge.h"
#include "server/fleet/repository.h"
#include "server/grpc/grpc_edge.h"
#include "server/http/http_listener.h"
#include "server/http/low_lane.h"
#include "server/metrics_handler.h"
#include "server/oip_handler.h"
#include "serving/core/server_id.h"

namespace lagoon {
namespace {

constexpr std::size_t kMaxRetainedBytes = std::size_t{32} << 20;
// The longest delay of grpc.health.v1 behind Inference::Ready.
constexpr std::chrono::milliseconds kHealthPeriod{200};
constexpr std::size_t kMaxScrapeConnections = 64;

int ThreadsOf(const ServerOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 4);
}

/// With what follows from other options and from the process.
ServerOptions Within(std::size_t descriptors, ServerOptions options) {
  const std::size_t connections = ConnectionsWithin(descriptors, options.http.max_connections);
  if (connections < options.http.max_connections) {
    spdlog::warn(
        "HTTP: at most {} connections instead of {}: the process may have {} files and "
        "sockets (`ulimit -n`)",
        connections, options.http.max_connections, descriptors);
  }
  options.http.max_connections = connections;
  if (options.grpc_address.empty()) options.grpc_address = options.address;
  if (options.metrics_address.empty()) options.metrics_address = options.address;
  const auto is_local = [](const std::string& address) { return !HostsFor(address, {}).any; };
  if (!options.shared_memory) {
    options.shared_memory = is_local(options.address) && is_local(options.grpc_address);
  }
  return options;
}

class EdgeServer final : public Server {
 public:
  EdgeServer(Inference& core, const ServerOptions& options)
      : core_(core),
        options_(Within(DescriptorLimit(), options)),
        pool_(ThreadsOf(options)),
        low_(pool_),
        regions_(options_.shared_memory.value_or(false)),
        infer_(core, pool_, lane_, regions_),
        generate_(core, pool_),
        scheduler_(core, pool_),
        shares_(core),
        region_handler_(regions_),
        fleet_(core, pool_, lane_, options.model_control),
        settings_(core, options.tracing),
        oip_(core, {infer_, generate_, region_handler_}, {scheduler_, shares_, fleet_, settings_},
             {options.admin_on_http, options.strict_readiness}),
        scrapes_(core, {scheduler_, shares_, fleet_, settings_}, options.spans),
        memory_{BufferPool::Create(kMaxRetainedBytes),
                std::make_shared<MemoryBudget>(
                    MemoryBudget::Limits{options.max_buffered_bytes,
                                         options_.http.max_connections + kMaxScrapeConnections})},
        health_timer_(boost::asio::make_strand(pool_.context())) {}

  ~EdgeServer() override {
    if (!stopped_) Stop(Now());
    lane_.Stop();  // the last work may still hold a socket of the pool
    low_.Stop();
    pool_.Join();  // handlers in the pool use members that are destroyed before it
  }

  lagoon::Status Open();

  int http_port() const override { return http_->port(); }
  int grpc_port() const override { return grpc_->port(); }
  int metrics_port() const override { return metrics_->port(); }
  void AnnounceStop() override { http_->AnnounceEnd(); }
  void Stop(TimePoint until) override;

 private:
  Result<std::shared_ptr<HttpListener>> Listen(HttpListener::Options options, HttpHandler& handler);
  void FollowHealth();
  void StopHealth();
  static void StopListener(const std::shared_ptr<HttpListener>& listener, TimePoint until);

  Inference& core_;
  const ServerOptions options_;
  IoPool pool_;  // sockets and timers must be destroyed before it
  JsonLane lane_;
  LowLane low_;
  SharedRegions regions_;
  InferHandler infer_;
  GenerateHandler generate_;
  SchedulerHandler scheduler_;
  ShareHandler shares_;
  RegionHandler region_handler_;
  FleetHandler fleet_;
  SettingsHandler settings_;
  OipHandler oip_;
  MetricsHandler scrapes_;
  const EdgeMemory memory_;
  Mutex health_mutex_;
  bool follow_health_ GUARDED_BY(health_mutex_) = true;
  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand> health_timer_;
  std::shared_ptr<HttpListener> http_;
  std::shared_ptr<HttpListener> metrics_;
  std::unique_ptr<GrpcEdge> grpc_;
  std::unique_ptr<ChannelEdge> channel_;  // null: there is none
  bool stopped_ = false;
};

Result<std::shared_ptr<HttpListener>> EdgeServer::Listen(HttpListener::Options options,
                                                         HttpHandler& handler) {
  options.hosts = HostsFor(options.port.address, options_.allowed_hosts);
  options.low = &low_;
  return HttpListener::Listen(pool_, handler, memory_, std::move(options));
}

// HTTP, gRPC and metrics.
std::array<PortChoice, 3> ChosenPorts(const ServerOptions& options) {
  const auto or_address = [&](const std::string& own) {
    return own.empty() ? options.address : own;
  };
  return {{{"HTTP", options.address, options.http_port},
           {"gRPC", or_address(options.grpc_address), options.grpc_port},
           {"metrics", or_address(options.metrics_address), options.metrics_port}}};
}

// Checked here, because otherwise the second of two equal ports would be refused as taken by
// another process.
lagoon::Status CheckDifferent(std::span<const PortChoice> ports) {
  for (const PortChoice& port : ports) {
    for (const PortChoice* other = ports.data(); other != &port; ++other) {
      if (port.port == 0 || port.port != other->port || port.address != other->address) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} and {} cannot share port {} of {}; give each its own, or 0",
                              other->protocol, port.protocol, port.port, port.address));
    }
  }
  return {};
}

lagoon::Status CheckHosts(const ServerOptions& options) {
  for (const std::string& name : options.allowed_hosts) {
    if (name == "*" || IsHostName(name)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--allow-host: {} is no name such as models.example, without scheme "
                            "and port",
                            Quoted(name)));
  }
  return {};
}

lagoon::Status EdgeServer::Open() {
  const std::array<PortChoice, 3> ports = ChosenPorts(options_);
  LAGOON_RETURN_IF_ERROR(CheckDifferent(ports));
  LAGOON_RETURN_IF_ERROR(CheckHosts(options_));
  // Every port is bound before anything is served.
  HttpLimits scrape = options_.http;
  scrape.max_body_bytes = std::max(SchedulerHandler::kMaxBodyBytes, fleet_.MaxLoadBytes());
  scrape.max_connections = std::min(scrape.max_connections, kMaxScrapeConnections);
  LAGOON_ASSIGN_OR_RETURN(http_, Listen({ports[0], options_.http}, oip_));
  LAGOON_ASSIGN_OR_RETURN(metrics_, Listen({ports[2], scrape}, scrapes_));
  const std::string id = ServerIdOf(core_);
  oip_.SetAdminPort(metrics_->port());
  oip_.SetServerId(id);
  GrpcEdge::Options grpc;
  grpc.address = options_.grpc_address;
  grpc.port = options_.grpc_port;
  grpc.limits.max_message_bytes = options_.http.max_body_bytes;
  grpc.limits.max_header_bytes = options_.http.max_header_bytes;
  grpc.limits.handshake_timeout = options_.http.header_timeout;
  grpc.limits.idle_timeout = options_.http.idle_timeout;
  grpc.max_buffered_bytes = options_.max_buffered_bytes;
  grpc.model_control = options_.model_control;
  grpc.strict_readiness = options_.strict_readiness;
  grpc.admin = options_.admin_on_http;
  grpc.tracing = options_.tracing;
  grpc.id = id;
  grpc.http_port = http_->port();
  if (!options_.channel.empty()) {
    LAGOON_ASSIGN_OR_RETURN(channel_, ChannelEdge::Start(core_, pool_, {.path = options_.channel}));
  }
  LAGOON_ASSIGN_OR_RETURN(grpc_, GrpcEdge::Start({core_, pool_, regions_}, grpc));
  http_->Start();
  metrics_->Start();
  FollowHealth();
  return {};
}

void EdgeServer::FollowHealth() {
  MutexLock lock(health_mutex_);
  if (!follow_health_) return;
  try {
    grpc_->SetServing(IsReady(core_, options_.strict_readiness));
  } catch (const std::bad_alloc&) {
    spdlog::debug("server: no memory to tell gRPC's clients whether the server is ready");
  }
  WaitOn(health_timer_, kHealthPeriod, health_timer_.get_executor(), [this] { FollowHealth(); });
}

void EdgeServer::StopHealth() {
  MutexLock lock(health_mutex_);
  follow_health_ = false;
  grpc_->SetServing(false);
  PostSurely(health_timer_.get_executor(), [this] { health_timer_.cancel(); });
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
  if (channel_ != nullptr && grpc_ == nullptr) channel_->Stop(until);
  if (grpc_ == nullptr) return;  // Open failed: nothing else was ever served
  StopHealth();
  http_->Drain();
  if (channel_ != nullptr) channel_->Stop(until);
  grpc_->Stop(until);
  StopListener(http_, until);
  metrics_->Drain();
  StopListener(metrics_, std::max(until, Now() + std::chrono::milliseconds(100)));
}

}  // namespace

lagoon::Status Server::Check(const ServerOptions& options) {
  std::array<PortChoice, 3> ports = ChosenPorts(options);
  LAGOON_RETURN_IF_ERROR(CheckDifferent(ports));
  LAGOON_RETURN_IF_ERROR(CheckHosts(options));
  if (!options.channel.empty()) LAGOON_RETURN_IF_ERROR(ChannelEdge::Check(options.channel));
  boost::asio::io_context context;
  std::vector<Acceptor> held;  // together, because one may exclude another
  for (PortChoice& port : ports) {
    held.emplace_back(boost::asio::make_strand(context));
    LAGOON_RETURN_IF_ERROR(ListenOn(held.back(), port));
  }
  return {};
}

Result<std::unique_ptr<Server>> Server::Start(Inference& core, const ServerOptions& options) {
  auto server = std::make_unique<EdgeServer>(core, options);
  LAGOON_RETURN_IF_ERROR(server->Open());
  return Result<std::unique_ptr<Server>>(std::move(server));
}

}  // namespace lagoon
