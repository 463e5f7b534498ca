#pragma once

// The metrics and targets of `lagoon bench split`, for simulated and real devices.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/evidence.h"
#include "bench/report/report.h"
#include "bench/split/answers.h"
#include "bench/split/scenario.h"

namespace lagoon::bench {

/// A scheduler (SplitRun), or ONNX Runtime.
struct SplitSystem {
  std::string name;                   // in metrics
  std::vector<double> alone_ms = {};  // by model
};

/// The answers to all requests of all systems.
struct SplitResults {
  std::vector<SplitModelName> models;
  std::vector<SplitSystem> systems;
  std::vector<SplitCase> cases;
  /// By case and system: the trials that count, in the same order for all systems of a case, which
  /// had the same arrivals.
  std::vector<std::vector<std::vector<SplitAnswers>>> trials;
  std::vector<bool> clean;  // by case: the host disturbed none of these trials
};

/// Adds metrics to `report`. C is the name of a case and X its suffix; S is a system:
///   violation_rate.S.C.a<alpha>X        part of the requests that took longer than alpha times
///                                       their model alone; alpha 2 to 20 (of a sweep 2, 4 and 8)
///   refused_part.S.CX                   part of the requests without an answer, if there are any
///   jitter_ms.S.C.<model>X              standard deviation of the latency, over all trials
///   jitter_ms.S.C.shortX                mean of that over the short models
///   response_ratio_mean.S.C[.<model>]X  latency over time alone
///   response_ratio_jitter.S.C[.<model>]X  standard deviation of that
///   response_ratio_jitter.S.C.{short,long}X  means of it over the short and over the long models
/// And, as medians over trials with intervals:
///   jitter_short_vs.B.CX                jitter of the short models, `split` over the baseline B,
///                                       less 1
///   violation_saved_points_max.B.CX     of the scenarios: violation rate of B less that of
///                                       `split`, the most over all alpha, in percentage points
///   jitter_short_vs.split.S.CX          the same, S over `split`; S: all kinds of `lagoon`, and
///                                       split.plan
///   violation_rate_vs.split.S.C.a<alpha>X   violation rate at alpha 2 and 4, S over `split`
/// Judges in scenarios 1 and 6: jitter_short_vs.B at most what the paper has, and of `lagoon` at
/// most half of what `split` has.
void WriteSplitResults(const SplitResults& results, Evidence& evidence, Report& report);

}  // namespace lagoon::bench
