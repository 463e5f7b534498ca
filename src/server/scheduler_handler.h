#pragma once

#include <cstddef>
#include <memory>

#include "server/http_message.h"
#include "serving/core.h"

namespace lagoon {

/// /v2/scheduler: GET tells the scheduler in use, POST switches it.
class SchedulerHandler {
 public:
  /// A body beyond this is no request to switch.
  static constexpr std::size_t kMaxBodyBytes = 4096;

  /// Both are borrowed; `pool` is where the connections live.
  SchedulerHandler(InferenceCore& core, IoPool& pool) : core_(core), pool_(pool) {}

  /// Any method: 405 to what is neither GET nor POST.
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

 private:
  void Switch(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

  InferenceCore& core_;
  IoPool& pool_;
};

}  // namespace lagoon
