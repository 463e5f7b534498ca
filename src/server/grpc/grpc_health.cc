#include "server/grpc/grpc_health.h"

#include <utility>

#include "server/grpc/grpc_unary_call.h"

namespace lagoon {
namespace {

constexpr std::string_view kServiceName = "inference.GRPCInferenceService";

}  // namespace

/// A client that watches. It is sent the last status only, when it takes the one before.
class GrpcHealth::Watcher final : public GrpcUnaryCall<GrpcHealth::Request> {
 public:
  Watcher(GrpcHealth& health, std::shared_ptr<GrpcCall> call)
      : GrpcUnaryCall(std::move(call)), health_(health) {}
  ~Watcher() override { health_.Remove(*this); }

  /// Any thread.
  void Tell(bool ended) {
    GrpcCall::Post(shared_call(), [self = shared_from_this(), this, ended] {
      if (ended) {
        call().Finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
      } else if (begun_) {
        Send();
      }
    });
  }

 private:
  void Handle(const Request& request) override {
    service_ = request.service();
    begun_ = true;
    Send();
  }

  void Send() {
    auto status = health_.StatusOf(service_);
    if (status == Response::UNKNOWN) status = Response::SERVICE_UNKNOWN;
    if (sending_ || status == sent_) return;
    sent_ = status;
    sending_ = true;
    Response response;
    response.set_status(status);
    const std::weak_ptr<GrpcUnaryCall> weak = weak_from_this();
    call().Write({{{response.SerializeAsString()}}}, [weak, this] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      sending_ = false;
      Send();
    });
  }

  GrpcHealth& health_;
  std::string service_;
  bool begun_ = false, sending_ = false;
  Response::ServingStatus sent_ = Response::UNKNOWN;
};

void GrpcHealth::Set(bool serving) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(serving_, serving) == serving) return;
  }
  for (const auto& watcher : Watchers()) watcher->Tell(/*ended=*/false);
}

GrpcHealth::Response::ServingStatus GrpcHealth::StatusOf(const std::string& service) const {
  if (!service.empty() && service != kServiceName) return Response::UNKNOWN;
  const MutexLock lock(mutex_);
  return serving_ ? Response::SERVING : Response::NOT_SERVING;
}

std::shared_ptr<GrpcMethod> GrpcHealth::Watch(std::shared_ptr<GrpcCall> call) {
  auto watcher = std::make_shared<Watcher>(*this, std::move(call));
  const MutexLock lock(mutex_);
  if (ended_) {
    watcher->Tell(/*ended=*/true);
  } else {
    watchers_.emplace(watcher.get(), watcher);
  }
  return watcher;
}

void GrpcHealth::End() {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
  }
  for (const auto& watcher : Watchers()) watcher->Tell(/*ended=*/true);
}

std::vector<std::shared_ptr<GrpcHealth::Watcher>> GrpcHealth::Watchers() const {
  std::vector<std::shared_ptr<Watcher>> alive;
  const MutexLock lock(mutex_);
  alive.reserve(watchers_.size());  // no watcher may end under the lock
  for (const auto& [watcher, weak] : watchers_) {
    if (auto shared = weak.lock()) alive.push_back(std::move(shared));
  }
  return alive;
}

void GrpcHealth::Remove(Watcher& watcher) {
  const MutexLock lock(mutex_);
  watchers_.erase(&watcher);
}

}  // namespace lagoon
