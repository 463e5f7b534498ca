#pragma once

#include "bench/disb_run.h"
#include "device/sim/profile.h"

namespace lagoon::bench {

struct SimDisbOptions : DisbRunOptions {
  SimProfile profile;
  SimDisbOptions() { closed_loop_slowdown = 4; }  // REEF 6.3: at most 3.66 times
};

/// RunDisb() on a simulated device: the same workloads, arrivals, schedulers and metrics, in
/// virtual time, with the frozen kernel lists of device/sim/models.h. Equal options give equal
/// metrics. What differs: a request of a closed loop counts in the throughput by the part of its
/// time that lies in the window, others if they end in it. Best-effort clients stop one window's
/// length after the end of theirs, so that a scheduler that starves real-time work ends too.
/// Besides RunDisb()'s metrics:
///   units_busy_fraction.S   time that units had blocks
/// Fails with kNotFound naming the models that the device has.
Status RunDisbOnSim(const SimDisbOptions& options, Report& report);

}  // namespace lagoon::bench
