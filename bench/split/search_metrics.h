#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "bench/report/report.h"
#include "bench/sim/kernel_lists.h"
#include "program/split/split_model.h"

namespace lagoon::bench {

/// What the search for parts knows of a kernel list, in mode kPlan.
SplitModel SplitModelOfList(const SimModel& model);

/// Standard deviation of the parts' times in milliseconds. `ends`: Plan::part_ends.
double SigmaMs(const SimModel& model, std::span<const std::uint32_t> ends);

/// Runs the genetic search for `parts` parts beside the exact reference, and adds the metrics
/// split_generations.<name> and split_fitness_vs_optimum.<name> (RunSplitOnSim()).
Status WriteSearchMetrics(const std::string& name, const SplitModel& model, std::uint32_t parts,
                          Report& report);

}  // namespace lagoon::bench
