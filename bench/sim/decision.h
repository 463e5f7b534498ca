#pragma once

#include "bench/report/report.h"

namespace lagoon::bench {

struct DecisionOptions {
  int rounds = 5;        // of each case, interleaved
  double seconds = 0.5;  // virtual, of each round
};

/// Measures from outside, on simulated devices, how much real time a scheduling decision costs the
/// host. Cases:
/// - `five_best_effort`: DISB C on gv100 (a real-time client and five best-effort ones), under
///   `lagoon`; the same under `reef` and under `reset`
/// - `thousand_ready`: 1,010 closed-loop clients of Paella's models on t4, under `paella`, which
///   has only a few of their jobs on the device at once
///
/// Metrics:
///   decision_us_median.CASE, _p99  from the call of the policy until the mechanism has noted what
///                                  it submitted, without the time spent in the device; all
///                                  kernels of a pick count as one decision
///   kernels_per_decision.CASE      mean
///   decisions.CASE                 how many there were
///   pick_us_median.CASE, _p99      the policy's part, over all picks, also those that pick no job
///   dispatcher_us_per_kernel.CASE  all that the dispatcher does on the device's news, without
///                                  polling and simulating: events, progress, revocation, padding,
///                                  picks, submission, finished jobs; the median of the rounds'
///                                  means
///   clock_us                       one reading of the clock: a pick includes one, a decision two
Status RunDecision(const DecisionOptions& options, Report& report);

struct PaddingChoices {
  double us = 0;          // mean time of those that found a kernel; contains what decision_us does
  double candidates = 0;  // jobs looked at, mean of all
};

/// The choices of best-effort kernels to pad with, in `seconds` virtual seconds of a workload of
/// DISB.
Result<PaddingChoices> MeasurePaddingChoices(const std::string& device, const std::string& workload,
                                             const std::string& scheduler, double seconds);

}  // namespace lagoon::bench
