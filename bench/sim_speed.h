#pragma once

#include "bench/report.h"

namespace lagoon::bench {

struct SimSpeedOptions {
  int rounds = 5;        // of each case, interleaved
  double seconds = 2.0;  // virtual, of each round
};

/// How fast the simulator is, dispatcher and policy included, on one core. Cases: `lagoon.gv100`
/// (DISB C), `paella.t4` (64 closed-loop clients of Paella's eight models), `paella.gtx1660s` (400
/// closed-loop clients of Paella's Figure 2: kernels of one block, the least that an event can be
/// shared by). Medians of the rounds:
///   sim_block_events_per_second.CASE   placements and completions of blocks in a real second
///   sim_kernels_per_second.CASE        launches submitted
///   sim_speedup.CASE                   virtual seconds in a real one
///   sim_block_events_per_second        the slower one of the first two, the papers' models
Status RunSimSpeed(const SimSpeedOptions& options, Report& report);

}  // namespace lagoon::bench
