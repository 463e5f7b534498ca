#pragma once

#include <cstddef>
#include <vector>

#include "bench/measure/evidence.h"

namespace lagoon::bench {

struct PreemptionDecisionOptions {
  std::vector<std::size_t> waiting = {5, 1000};  // requests that wait already
  int rounds = 9;                                // of each number, interleaved
  int decisions = 2000;                          // of each round
};

/// Measures in real time what the greedy preemption of `split` (SPLIT 3.4, Algorithm 1) costs: a
/// request comes while others wait, and the policy finds its place and picks the next job. The
/// requests that wait are of Table 1's five models in turn. Metrics, medians over rounds of the
/// rounds' medians:
///   preemption_decision_us.<waiting>   Policy::OnArrival, ReadyIndex::Update, which sorts the
///                                      request in, and Policy::Pick; and one reading of the clock
/// Targets: 0.3 us with 5 waiting, 2 us with 1,000.
Status MeasurePreemptionDecision(const PreemptionDecisionOptions& options, Evidence& evidence);

}  // namespace lagoon::bench
