#pragma once

#include <cstdint>
#include <string>

namespace lagoon {

/// A named configuration of the mechanism; docs/schedulers.md has the table.
struct SchedulerConfig {
  enum class Streams : std::uint8_t {
    kOne,       // everything in order
    kPerQueue,  // one ordered stream per model and class
    kPooled,    // no order but the dependencies
  };
  enum class Preemption : std::uint8_t {
    kNone,
    kWait,   // queued kernels leave; running ones finish before real-time work is submitted
    kReset,  // running blocks leave too (REEF 4)
  };
  std::string name;
  Streams streams = Streams::kPooled;
  Preemption preemption = Preemption::kNone;
  bool ranks_by_class = true;         // false: the device decides among what is submitted
  std::uint32_t max_active_jobs = 0;  // jobs with work on the device at once; 0: no limit
  std::uint32_t depth = 4;            // kernels of one job in the device's queue (REEF 4.2); 0: all
};

/// Counters since the start; monotonic.
struct DispatcherStats {
  std::uint64_t revocations = 0;     // times that real-time work made best-effort work leave
  std::uint64_t resumed_blocks = 0;  // blocks that a relaunch found done and did not run again
  std::uint64_t launches = 0;
  std::uint64_t refused_launches = 0;  // the device was full; tried again later
};

}  // namespace lagoon
