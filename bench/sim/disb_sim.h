#pragma once

#include <functional>
#include <map>
#include <string>

#include "bench/disb_run.h"
#include "bench/sim/kernel_lists.h"
#include "sched/observer.h"
#include "sim/device/gpu_model.h"

namespace lagoon::bench {

struct SimDisbOptions : DisbRunOptions {
  GpuModel gpu;
  /// Kernel lists of models, by the names that clients use. They go before those of `kernels_of`.
  std::map<std::string, SimModel> models;
  std::string kernels_of;  // the built-in device whose kernel lists other models have; empty: gpu's
  /// Called for the first window with all clients of each system: as SimStageHooks::watch, and when
  /// the window is over and its stage is gone. Both or neither.
  std::function<SchedObserver*(Device&, const std::string& system)> watch;
  std::function<Status()> watched;
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
/// Fails with kNotFound for a model without a kernel list, naming those that the device has.
Status RunDisbOnSim(const SimDisbOptions& options, Report& report);

}  // namespace lagoon::bench
