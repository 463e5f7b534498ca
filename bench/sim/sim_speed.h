#pragma once

#include "bench/report/report.h"

namespace lagoon::bench {

struct SimSpeedOptions {
  int rounds = 5;        // of each case, interleaved
  double seconds = 2.0;  // virtual, of each round
};

/// Measures how fast the simulator is on one core, dispatcher and policy included. Cases:
/// - `lagoon.gv100`: workload C of DISB under scheduler `lagoon`
/// - `paella.t4`: 64 closed-loop clients of Paella's eight models
/// - `paella.gtx1660s`: 400 closed-loop clients of the job of Paella's Figure 2. Its kernels have
///   one block each, so that a launch causes no more than two block events. The cost of launches
///   weighs most in this case.
///
/// Metrics are medians of the rounds:
///   sim_block_events_per_second.CASE   placements and completions of blocks in a real second
///   sim_kernels_per_second.CASE        launches submitted in a real second
///   sim_speedup.CASE                   virtual seconds in a real second
///   sim_block_events_per_second        the slower one of the first two cases
Status RunSimSpeed(const SimSpeedOptions& options, Report& report);

}  // namespace lagoon::bench
