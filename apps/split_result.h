#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/report.h"
#include "program/profile/part_times.h"
#include "program/split/optimal.h"
#include "program/split/search.h"

namespace lagoon {

/// The search for one number of parts.
struct PartsTried {
  std::uint32_t parts = 0;
  SplitResult found;
  OptimalResult optimal;
  std::vector<SplitShape> measured;  // by index in found.best; empty: not measured
  double bubble_us = 0;              // measured, between two parts of the best candidate
  std::size_t kept = 0;              // index in found.best

  const SplitCandidate& best() const { return found.best[kept]; }
};

/// All that `lagoon split` has found.
struct SplitOutcome {
  std::string model;
  SplitModel costs;
  std::vector<std::string> ops;  // names, in order
  double whole_us = 0;           // sum of the ops' times, and one call in mode kOnnx
  int runs = 0;                  // of each candidate
  double tie = 0;                // ChooseOptions::tie
  std::vector<PartsTried> tried;
  std::size_t chosen = 0;  // index in `tried`
};

/// The shape as measured. `whole`: the time of the plan in one part, measured in the same way.
SplitShape MeasuredShape(const PartTimes& times, Nanoseconds whole);

/// Prints what was tried, why one number of parts was chosen, what the candidates took, and the
/// parts.
void PrintSplit(const SplitOutcome& outcome);

/// Adds the metrics: of the best candidate as predicted, of the optimum, and of the kept candidate as
/// measured. Adds the ends of the kept parts.
void ReportSplit(const SplitOutcome& outcome, bench::Report& report);

/// Adds the field "scan": overhead and deviation of three parts, by the positions of both cuts
/// (Figure 2 of SPLIT). A model of many ops is sampled.
void ReportScan(const SplitOutcome& outcome, bench::Report& report);

}  // namespace lagoon
