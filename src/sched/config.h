#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lagoon {

/// A named configuration of the mechanism; docs/guide/schedulers.md has the table.
struct SchedulerConfig {
  enum class Streams : std::uint8_t {
    kOne,       // everything in order
    kPerQueue,  // one ordered stream per model and class
    kPerJob,    // one ordered stream per job, of a fixed number; more jobs share them
    kPooled,    // no order but the dependencies
  };
  enum class Preemption : std::uint8_t {
    kNone,
    kWait,   // queued kernels leave; running ones finish before real-time work is submitted
    kReset,  // running blocks leave too (REEF 4)
  };
  /// What the device goes by among the launches that it holds.
  enum class Ranks : std::uint8_t {
    kSubmission,  // nothing: first submitted, first run
    kClass,       // real-time before best-effort, each by order of posting
    kPolicy,      // real-time before best-effort, each as the policy's decisions say
  };
  std::string_view name;  // of static storage
  Streams streams = Streams::kPooled;
  Preemption preemption = Preemption::kNone;
  Ranks ranks = Ranks::kClass;
  std::uint32_t max_active_jobs = 0;  // jobs with work on the device at once; 0: no limit
  std::uint32_t depth = 4;            // kernels of one job in the device's queue (REEF 4.2); 0: all
  std::uint32_t max_kernels = 0;      // of one class in the device's queue; 0: no limit (Orion: 1)
  /// Blocks submitted beyond those that the units hold at once by their kernels' occupancy
  /// (Paella's B, 4.1 and 6); where it is above 0, at least two kernels are let through, so that
  /// one fills the tail of the other. Nothing: no limit.
  std::optional<std::uint32_t> extra_blocks = std::nullopt;
  /// While real-time work runs, best-effort kernels get the units that it leaves free (REEF 5):
  /// those that so many of a real-time job's next kernels all leave. 0: none.
  std::uint32_t padding_kernels = 0;
};

/// Counters since the start; monotonic.
struct DispatcherStats {
  std::uint64_t revocations = 0;     // times that real-time work made best-effort work leave
  std::uint64_t resumed_blocks = 0;  // blocks that a relaunch found done and did not run again
  std::uint64_t launches = 0;
  std::uint64_t refused_launches = 0;  // the device was full; tried again later
  std::uint64_t padded_launches = 0;   // best-effort kernels submitted beside real-time work
};

}  // namespace lagoon
