#pragma once

#include <cstddef>
#include <memory>

#include "server/http/http_message.h"
#include "serving/core/inference.h"

namespace lagoon {

/// /v2/scheduler: GET returns the scheduler in use, POST switches it. /v2/schedulers: GET lists all
/// schedulers and their parameters.
class SchedulerHandler {
 public:
  /// Bytes of the largest body that is accepted.
  static constexpr std::size_t kMaxBodyBytes = 4096;

  /// Both are borrowed. `pool`: the one that runs the connections.
  SchedulerHandler(Inference& core, IoPool& pool) : core_(core), pool_(pool) {}

  /// The request has a method that the endpoint has (HasMethod()).
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

 private:
  void Switch(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

  Inference& core_;
  IoPool& pool_;
};

}  // namespace lagoon
