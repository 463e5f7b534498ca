#pragma once

// What calls of a run return: numbers, so that a call on the path of a run makes no message.

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "sched/job.h"

namespace lagoon {

/// The numbers are those of `lagoon_code` (include/lagoon/lagoon.h) and never change.
enum class RunCode : std::uint8_t {
  kOk = 0,
  kInvalidArgument,
  kNotFound,
  kUnimplemented,
  kResourceExhausted,
  kDeadlineExceeded,
  kCancelled,
  kUnavailable,
  kInternal,
  kSuperseded,  // a newer run of its model took its place (LocalModelOptions::newest_wins)
  kTooLate,     // refused when it came: it would miss its deadline
};

std::string_view Name(RunCode code);  // "ok", "invalid argument", ...
RunCode CodeOf(ErrorCode code);
RunCode CodeOf(const JobResult& result);

}  // namespace lagoon
