#pragma once

// How long real-time work waits for best-effort work to leave a simulated device, and what that
// costs (REEF 6.4).

#include <string>
#include <vector>

#include "bench/sim_stage.h"

namespace lagoon::bench {

/// A way to preempt: a named scheduler with the depth of the device's queue and what happens to
/// running blocks.
struct PreemptionWay {
  std::string label;
  std::string scheduler;
  std::uint32_t depth = 4;  // kernels of a job in the device's queue; 0: all
  SimAbort abort = SimAbort::kCheck;

  Result<Scheduler> Make() const;
};

/// REEF's wait-based baseline (6.4): everything is queued, and leaves lazily.
PreemptionWay WaitWay();
/// As REEF does it: running blocks are killed.
PreemptionWay KillWay();
/// As the block protocol does it: they leave at a check, and what is committed stays.
PreemptionWay CheckWay();

struct PreemptionCase {
  SimProfile profile;
  std::vector<const SimModel*> best_effort;  // closed loops
  int requests = 100;                        // of the real-time client, at random moments
  unsigned seed = 1;
};

/// From the arrival of a real-time request to its first block, in microseconds; one a request.
Result<std::vector<double>> PreemptionUs(const PreemptionCase& preempted, const PreemptionWay& way);

/// What a best-effort request loses by one preemption beyond the time from the real-time request's
/// arrival to its end: relaunching, and what has to run again.
struct RestoreCost {
  std::vector<double> us;  // one a preemption
  double alone_us = 0;     // the request, not preempted
};
Result<RestoreCost> MeasureRestore(const PreemptionCase& preempted, const PreemptionWay& way);

/// `kernels` of `time` each, on all units of the profile.
SimModel FullKernels(const SimProfile& profile, std::size_t kernels, Nanoseconds time);

}  // namespace lagoon::bench
