#pragma once

#include <array>
#include <string_view>

#include "base/time.h"
#include "sched/job.h"

namespace lagoon {

/// What an edge stamps on a request's way in.
struct EdgeStamps {
  TimePoint first_byte;  // of the request
  TimePoint received;    // its last byte was here
  TimePoint submitted;   // parsed; InferenceCore::Infer was called
};

struct Stage {
  std::string_view name;  // the response parameter
  double us = 0;
};

/// Where the time of a request went, in order; the stages follow each other without gaps, so that
/// their sum is the time from `stamps.first_byte` to `responding`, the moment when the answer's
/// rendering begins.
std::array<Stage, 8> Stages(const EdgeStamps& stamps, const JobResult& job, TimePoint responding);

}  // namespace lagoon
