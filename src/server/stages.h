#pragma once

#include <array>
#include <string_view>

#include "base/time.h"
#include "serving/core/request.h"

namespace lagoon {

/// The stamps of an edge while a request comes in.
struct EdgeStamps {
  TimePoint first_byte;  // the first byte of the request arrived
  TimePoint received;    // its last byte arrived
  TimePoint submitted;   // parsed; Inference::Infer was called
  /// DispatcherStats::off_core when it was submitted; before the rendering: its growth since. Only
  /// of requests that ask for their stages.
  Nanoseconds off_core{0};
};

struct Stage {
  std::string_view name;  // the response parameter
  double us = 0;
};

/// The stages of a request in order, with their times. They follow each other without gaps, so that
/// their sum is the time from `stamps.first_byte` to `responding`, the moment when the rendering of
/// the answer begins. Waits for plans are one stage, also those between the parts of a model. The
/// last entry is no stage: `stamps.off_core`, a sum over worker threads.
std::array<Stage, 10> Stages(const EdgeStamps& stamps, const InferResponse& response,
                             TimePoint responding);

}  // namespace lagoon
