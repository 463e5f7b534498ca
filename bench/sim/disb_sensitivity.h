#pragma once

#include "bench/sim/disb_sim.h"

namespace lagoon::bench {

/// Repeats RunDisbOnSim() with each assumed or calibrated constant of the GPU model at half and at
/// double its value, one constant at a time. The kernel lists stay as they are. A value beyond a
/// constant's bounds, or one that contradicts another constant, is left out. Metrics, besides those
/// of the unchanged GPU model:
///   METRIC.SCHEDULER.CONSTANT.half, .double   METRIC: realtime_latency_normalized_mean,
///                                             throughput_normalized
/// The field "sensitivity" lists {"constant", "source", "value", "factor", "metrics"}. `table`
/// becomes a table of the relative changes for people.
Status RunDisbSensitivity(const SimDisbOptions& options, Report& report, std::string& table);

}  // namespace lagoon::bench
