#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
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

/// The generations of the search as in SPLIT's Figure 5, without a descent: {"model", "parts",
/// "even", "random", "random_within_1_percent"}. `even` and `random` are lists of {"sigma_us",
/// "overhead", "fitness"}, the best after each generation, with a first generation near even times
/// (Lagoon's) and one that is drawn at random (the paper's). The last has for each of ten seeds the
/// generation from which the best of a random start is within 1 % of the optimum; 0: it never is.
Result<nlohmann::json> GenerationsOf(const std::string& name, const SplitModel& model,
                                     std::uint32_t parts);

}  // namespace lagoon::bench
