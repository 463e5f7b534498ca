#pragma once

#include "bench/disb_run.h"
#include "bench/sim/sim_kernels.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {

struct SimDisbOptions : DisbRunOptions {
  GpuModel gpu;
  SimKernels kernels;
  SimWatch watch;  // of each system's first window with all clients
  SimDisbOptions() {
    closed_loop_slowdown = 4;  // REEF 6.3: at most 3.66 times
    clients = {DisbLoad::Late::kQueue, DisbLoad::Late::kNewest};
  }
};

/// RunDisb() on a simulated device: the same workloads, arrivals, schedulers and metrics, in
/// virtual time, with the frozen kernel lists of bench/sim/kernel_lists.h. Equal options give equal
/// metrics. Differences from RunDisb():
/// - A request of a closed loop counts in the throughput by the part of its time inside the window,
///   if five or more of its client end there. Else, and in an open loop, it counts if it ends
///   there.
/// - Closed loops stop at the latest one window's length after the end of the window, so that a run
///   ends even under a scheduler that starves real-time work.
/// - There is another metric, units_busy_fraction.S: part of the units' time that they had blocks.
///
/// Fails as FindKernels() does.
Status RunDisbOnSim(const SimDisbOptions& options, Report& report);

}  // namespace lagoon::bench
