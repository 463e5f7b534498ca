#pragma once

// How long real-time work waits until best-effort work has left a simulated device, and what this
// costs the best-effort work (REEF 6.4).

#include <string>
#include <vector>

#include "bench/sim/sim_stage.h"

namespace lagoon::bench {

/// A way to preempt: a scheduler, the depth of the device's queue, and what happens to running
/// blocks.
struct PreemptionWay {
  std::string label;
  std::string scheduler;
  std::uint32_t depth = 4;  // kernels of a job in the device's queue; 0: all
  SimAbort abort = SimAbort::kCheck;

  Result<Scheduler> Make() const;
};

/// REEF's wait-based baseline (6.4): all kernels of a job are queued on the device. Queued kernels
/// leave, running ones finish.
PreemptionWay WaitWay();
/// REEF's way: running blocks are killed.
PreemptionWay KillWay();
/// The block protocol's way: running blocks leave at a check, and committed blocks stay done.
PreemptionWay CheckWay();

struct PreemptionCase {
  GpuModel gpu;
  std::vector<const SimModel*> best_effort;  // closed loops
  int requests = 100;                        // real-time requests, at random moments
  unsigned seed = 1;
};

/// The time from each real-time request's arrival to its first block, in microseconds.
Result<std::vector<double>> PreemptionUs(const PreemptionCase& preempted, const PreemptionWay& way);

/// The time that a best-effort request loses by one preemption, without the time from the real-time
/// request's arrival to its end: relaunching, and work that has to run again.
struct RestoreCost {
  std::vector<double> us;  // by preemption
  double alone_us = 0;     // time of the best-effort request without preemption
  double host_use = 0;     // part of that time for which the host works
};
Result<RestoreCost> MeasureRestore(const PreemptionCase& preempted, const PreemptionWay& way);

/// A model of `kernels` kernels that take `time` each and have a block on every unit of the
/// GPU model.
SimModel FullKernels(const GpuModel& gpu, std::size_t kernels, Nanoseconds time);

}  // namespace lagoon::bench
