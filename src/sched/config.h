#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace lagoon {

/// Orders in which ready jobs of a class are kept; ties go to the job posted first.
enum class By : std::uint8_t {
  kArrival,      // order of posting
  kDeadline,     // earliest first; jobs without one last
  kDue,          // the same, but a job without a deadline is due after twice its total time
  kSlack,        // deadline less remaining time, smallest first
  kTotal,        // expected time of the whole job, shortest first
  kRemaining,    // expected time of its incomplete kernels, shortest first
  kLeastServed,  // picked longest ago first; jobs never picked before all others
  // Unsubmitted time times total time, smallest first: of two jobs the one goes first that raises
  // the sum of their response ratios least (SPLIT 3.4).
  kResponseRatio,
  // The same, but the total time of a job with a deadline is the time from its arrival to that
  // deadline: its target, which SPLIT divides a latency by.
  kTargetRatio,
};

/// What policies read; each policy says which.
struct PolicyConfig {
  By order = By::kArrival;           // of jobs, or of best-effort jobs
  bool real_time_first = false;      // the order holds within a class
  double fairness_threshold = 1000;  // kernels that a client may be behind an equal share
  bool whole_jobs = false;           // jobs are never cut into parts
  bool elastic = false;              // jobs run whole while cutting them would not pay (SPLIT 3.3)
  double dense = 0.9;                // load from which on cutting does not pay
  std::uint32_t patience = 0;        // later jobs that may pass the oldest of a queue; 0: no limit
  Nanoseconds quantum{0};            // a job's turn; 0: one kernel
  bool together = true;              // of rounds: a round's answers leave with its last job
};

/// A named configuration of the mechanism; docs/guide/schedulers.md has the table.
struct SchedulerConfig {
  enum class Streams : std::uint8_t {
    kOne,       // everything in order
    kPerQueue,  // one ordered stream per model and class
    kPerJob,    // one ordered stream per job, from a fixed number that jobs share in turn
    kPooled,    // no order beyond the dependencies
  };
  enum class Preemption : std::uint8_t {
    kNone,
    kWait,   // queued kernels leave; running ones finish before real-time work is submitted
    kReset,  // running blocks leave too (REEF 4)
  };
  /// How the device orders the launches that it holds.
  enum class Ranks : std::uint8_t {
    kSubmission,  // order of submission
    kClass,       // real-time before best-effort, each in order of posting
    kPolicy,      // real-time before best-effort, each by the rank in the policy's decisions
  };
  std::string_view name = {};  // in static storage
  Streams streams = Streams::kPooled;
  Preemption preemption = Preemption::kNone;
  Ranks ranks = Ranks::kClass;
  std::uint32_t max_active_jobs = 0;  // jobs with work on the device at once; 0: no limit
  std::uint32_t depth = 4;            // kernels of one job in the device's queue (REEF 4.2); 0: all
  /// Kernels of a class in the device's queue (Orion: 1), with a Preemption of the best-effort
  /// class only. 0: all.
  std::uint32_t max_kernels = 0;
  /// A best-effort kernel is submitted in slices: as many blocks as end within this time, but at
  /// least as many as the units hold at once (Tally 4, Hummingbird, LithOS). The next slice or
  /// kernel of the job follows when the slice has ended. On a device that does not slice kernels
  /// they go whole, one of a job at a time. Needs Streams::kPooled, and no Preemption::kReset.
  /// 0: whole kernels, `depth` of them.
  Nanoseconds kernel_slice{0};
  /// How many blocks may be submitted beyond those that the units hold at once, counted by the
  /// occupancy of their kernels (Paella's B, 4.1 and 6). Empty: no limit.
  std::optional<std::uint32_t> extra_blocks = std::nullopt;
  /// With extra_blocks: the device reports the blocks of a kernel that have begun and that are done
  /// at least so many at a time (Launch::tell_every), and `extra_blocks` counts blocks that have
  /// not begun. 0, or on a device that cannot tell: a kernel's blocks count until all are done, and
  /// with extra_blocks above 0 two kernels may always be submitted, so that one fills the tail of
  /// the other.
  std::uint32_t block_events = 0;
  /// Dynamic kernel padding (REEF 5): how many of a real-time job's next kernels to look ahead.
  /// Best-effort kernels may use the units that none of those kernels needs. 0: no padding.
  std::uint32_t padding_kernels = 0;
  /// Padding is also submitted for a room that begins later: the tail of a real-time kernel that
  /// needs all units, or what follows that kernel. It waits for that on the device.
  bool padding_ahead = false;
  /// Padding leaves when its room ends. False: as many blocks of a kernel pad as end in the room,
  /// and they run to their end (REEF 5.2). They are submitted before the kernel that they pad
  /// begins, and begin with it. Where they are one launch with that kernel
  /// (SimDeviceOptions::joined_padding), the next real-time kernel waits for them. On a device that
  /// does not slice kernels (DeviceInfo::slices_kernels) padding always leaves.
  bool padding_leaves = true;
  /// How many best-effort jobs are looked at for a room, in the policy's order. 0: its choice only.
  std::uint32_t padding_candidates = 64;
  /// Padding may run in another version of its kernel than the plan's (REEF 5.3).
  bool padding_versions = false;
  /// Padding and real-time kernels take units by the blocks that a unit holds at once. False: a
  /// unit for each block, so that a real-time block has its unit for itself.
  bool packed_padding = false;
  /// Part of the device's memory bandwidth that real-time kernels and padding may ask for together
  /// (REEF 7), where plans say what kernels ask for (OpCost::bandwidth_ppm). 0: no limit.
  double padding_bandwidth = 0;
  /// Real-time jobs with incomplete kernels on the device at once (REEF 3.1: 1). 0: no limit.
  std::uint32_t max_real_time_jobs = 0;
  /// Best-effort jobs preempt one another, as real-time jobs preempt them: a job that is picked
  /// takes the device from those of worse rank, and those wait until all its kernels are submitted.
  /// Needs kReset and Ranks::kPolicy.
  bool preempt_by_rank = false;
  /// Kernels may go beyond the share of their queue (Launch::beyond_share): a share is what a queue
  /// is sure of, and others use it while the queue does not.
  bool lend_units = false;
  /// Nothing is submitted while a kernel is in flight: the device has one part of one job at a time
  /// (SPLIT 3.2).
  bool one_part = false;
  /// A job that would miss its deadline behind the jobs that go before it ends at once, as
  /// kTooLate (Clockwork drops such requests). Costs O(n) for n unfinished jobs.
  bool admit_by_deadline = false;
  /// Best-effort work gets at least this part of the time during which real-time work keeps it
  /// waiting, in slices (BestEffortMinimum). 0: it may get nothing. Needs a Preemption.
  double best_effort_minimum = 0;
  PolicyConfig policy = {};
};

/// Counters since the start; monotonic.
struct DispatcherStats {
  /// How often work was revoked: best-effort work by real-time work, or by best-effort work that
  /// goes first; any by a move of its share.
  std::uint64_t revocations = 0;
  std::uint64_t share_evictions = 0;  // kernels revoked because their share lost units
  std::uint64_t resumed_blocks = 0;   // blocks already done at a relaunch, which did not run again
  std::uint64_t reexecuted = 0;       // kernels that a group's restart ran again, whole
  std::uint64_t launches = 0;
  std::uint64_t refused_launches = 0;    // the device was full; tried again later
  std::uint64_t padded_launches = 0;     // best-effort kernels submitted beside real-time work
  std::uint64_t padding_choices = 0;     // how often a job was sought for a room
  std::uint64_t padding_candidates = 0;  // jobs that were looked at then
  std::uint64_t holds = 0;               // PartGap: gaps that were kept free of best-effort work
  std::uint64_t holds_in_vain = 0;       // those that were longer than expected
  std::uint64_t slices = 0;              // SchedulerConfig::best_effort_minimum
  Nanoseconds off_core{0};               // UnitTimes::off_core
};

}  // namespace lagoon
