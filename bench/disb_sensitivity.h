#pragma once

#include "bench/disb_sim.h"

namespace lagoon::bench {

/// RunDisbOnSim() with each constant of the profile that is assumed or calibrated at half and at
/// double its value, one at a time. The kernel lists stay as they are. A value beyond a constant's
/// bounds, or one that contradicts another constant, is left out. Metrics, beside those of the
/// profile as it is:
///   METRIC.SCHEDULER.CONSTANT.half, .double   METRIC: realtime_latency_normalized_mean,
///                                             throughput_normalized
/// The field "sensitivity" lists {"constant", "source", "value", "factor", "metrics"}. `table`
/// becomes the list for people: the relative changes.
Status RunDisbSensitivity(const SimDisbOptions& options, Report& report, std::string& table);

}  // namespace lagoon::bench
