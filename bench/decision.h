#pragma once

#include "bench/report.h"

namespace lagoon::bench {

struct DecisionOptions {
  int rounds = 5;        // of each case, interleaved
  double seconds = 0.5;  // virtual, of each round
};

/// Real time that a scheduling decision costs the host, measured from outside on simulated devices.
/// Cases: `five_best_effort` (DISB C on gv100: a real-time client and five best-effort ones, under
/// `lagoon`), the same under `reef` and `reset`, `thousand_ready` (1,010 closed-loop clients of
/// Paella's models on t4, under `paella`, which has at most a few of them on the device).
///   decision_us_median.CASE, _p99  from asking the policy until the mechanism has noted what it
///                                  submitted, the device's own time taken out; all kernels of a
///                                  pick count as one decision
///   kernels_per_decision.CASE      their mean
///   pick_us_median.CASE, _p99      the policy's part, of all picks, those that find nothing
///                                  included
///   dispatcher_us_per_kernel.CASE  all that the dispatcher does with the device's news (polling
///                                  and simulating taken out): events, progress, revocation,
///                                  padding, picks, submission, finished jobs; mean
///   clock_us                       of one reading of the clock: a pick includes one, a decision
///   two
Status RunDecision(const DecisionOptions& options, Report& report);

/// The mean of all decisions in so many virtual seconds of a workload of DISB.
Result<double> MeanDecisionUs(const std::string& device, const std::string& workload,
                              const std::string& scheduler, double seconds);

}  // namespace lagoon::bench
