#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "bench/measure/evidence.h"
#include "bench/report/report.h"
#include "serving/core/inference.h"

namespace lagoon::bench {

struct GivingUpOptions {
  double rate = 1;       // requests a second
  Nanoseconds limit{0};  // how long a client waits for an answer
  int windows = 6;       // of each side, interleaved
  double window_seconds = 1;
  std::uint32_t seed = 1;
};

/// What a server computes for clients that have given up: requests at `rate` (Poisson arrivals),
/// whose clients wait for `limit`. Metrics, for a side S:
///   wasted_work_fraction.S   time on the device for requests that were not answered within the
///                            limit, of the time for all
///   goodput_ips.S            answers within the limit, a second
/// The sides differ in what the server learns. `lagoon`: the limit as a deadline, and a
/// cancellation when the client gives up, as the edges send it when a client cancels or
/// disconnects. `cancels`: the cancellation only. `deaf`: nothing.
Status MeasureGivingUp(Inference& core, const InferRequest& request, const GivingUpOptions& options,
                       Evidence& evidence, ProgressBar& progress);

inline constexpr const char* kGivingUpSides[] = {"lagoon", "cancels", "deaf"};

}  // namespace lagoon::bench
