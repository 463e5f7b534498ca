#pragma once

// The metrics of `lagoon bench placement`.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/placement/placement.h"

namespace lagoon::bench {

/// A placer on so many GPUs over the load.
struct PlacementCurve {
  std::string block;  // "fair" or "paper", see RunPlacement()
  std::string placer;
  std::size_t gpus = 4;
  std::vector<double> loads;
  std::vector<std::vector<PlacementRun>> runs;  // [load][seed]
};

/// Metrics: medians over the seeds, with ".low" and ".high" of their intervals. B is "" for the
/// block fair and "paper." for the other; P, Q are placers, N a number of GPUs:
///   goodput_at_99.BP.gpusN            goodput at which 1 % of the requests are late or dropped
///   goodput_at_99_of_served.BP.gpusN  the same, of models that the placer did not refuse
///   violation_rate.BP.gpusN.loadL     part that is late or dropped
///   placement_decision_ms.BP.gpusN    mean of all; also placement_decision_ms_max
/// For the first number of GPUs, all loads together (sums), and each with ".loadL" behind it:
///   violation_rate.BP, moves.BP
///   goodput_ratio.BLOCK.P_over_Q      goodput, of inss and lagoon over each other placer
///   capacity_ratio.P_over_Q           SimReport::capacity, block paper; capacity_ratio.fair. too
///   gpus_used.BP, goodput_per_gpu.BP, fragments_each.BP, busy.BP  means over loads
/// and of goodput_ratio, capacity_ratio and violation_rate over all loads also ".mean". Field
/// "curves": means over the seeds at each load.
void WritePlacementCurves(const std::vector<PlacementCurve>& curves, std::uint32_t seed,
                          Report& report);

}  // namespace lagoon::bench
