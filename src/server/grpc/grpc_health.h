#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_health.pb.h"

namespace lagoon {

/// grpc.health.v1: whether the server serves, as one answer (Check) and for as long as a client
/// likes to know (Watch). Any thread.
class GrpcHealth {
 public:
  using Request = health::HealthCheckRequest;
  using Response = health::HealthCheckResponse;

  void Set(bool serving);
  /// UNKNOWN: this server has no such service.
  Response::ServingStatus StatusOf(const std::string& service) const;
  std::shared_ptr<GrpcMethod> Watch(std::shared_ptr<GrpcCall> call);
  /// Ends the calls that watch, and refuses new ones.
  void End();

 private:
  class Watcher;

  std::vector<std::shared_ptr<Watcher>> Watchers() const;
  void Remove(Watcher& watcher);

  mutable Mutex mutex_;
  bool serving_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::map<Watcher*, std::weak_ptr<Watcher>> watchers_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
