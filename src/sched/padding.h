#pragma once

// Where best-effort kernels fit beside real-time ones (REEF 5).

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "sched/job_launches.h"
#include "sched/job_queue.h"
#include "sched/policy.h"

namespace lagoon {

constexpr std::uint64_t kNoBandwidthLimit = ~std::uint64_t{0};

/// How rooms are counted (SchedulerConfig::padding_kernels and what follows there).
struct RoomRules {
  std::uint32_t kernels = 1;  // to look ahead
  bool packed = false;        // a unit is full with `occupancy` blocks, not with one
  double bandwidth = 0;       // part of the device's that padding and real-time work may ask for
  bool versions = true;       // padding may run in other versions than the plan's
  bool leaves = true;         // SchedulerConfig::padding_leaves
  bool tails = false;         // SchedulerConfig::padding_ahead
};

/// Units that real-time work leaves free for a while.
struct PaddingRoom {
  std::uint32_t units = 0;
  std::uint32_t taken = 0;      // units that the real-time work needs
  Nanoseconds time{0};          // expected duration
  Nanoseconds begun{0};         // part of `time` that is over when padding can start
  std::uint32_t occupancy = 0;  // the largest one of the real-time kernels
  bool packed = false;          // RoomRules::packed
  bool versions = true;         // RoomRules::versions
  bool leaves = true;           // RoomRules::leaves
  /// Memory bandwidth in millionths of the device's: what the real-time kernels take, and what is
  /// left for padding (no limit: all of it, however much is asked for).
  std::uint64_t bandwidth_ppm = 0;
  std::uint64_t bandwidth_left_ppm = kNoBandwidthLimit;
  const Progress* until = nullptr;  // the room ends when this real-time kernel is complete
  std::size_t last = 0;             // its op
  const std::shared_ptr<ProgressRecords>* records = nullptr;  // where `until` and `after` lie
  /// The room begins when so many blocks of a real-time kernel are done. None: it has begun, or
  /// begins with the real-time job.
  std::optional<Dep> after = {};
};

/// Units of the room for jobs of the queue. Real-time work may need any units of the queue's share,
/// so that a share loses as many units as the device. 0: none.
std::uint32_t UnitsIn(const PaddingRoom& room, const JobQueue& queue);
/// The room with only those units.
PaddingRoom RoomFor(const PaddingRoom& room, const JobQueue& queue);

/// Most blocks of a kernel of `occupancy` that run on `units` units of the room at once.
inline std::uint32_t BlocksAtOnce(const PaddingRoom& room, std::uint32_t units,
                                  std::uint32_t occupancy) {
  return units * (room.packed ? std::max(occupancy, 1U) : 1);
}

/// How many blocks end within `time` where `at_once` run at a time, each for the time `block`; at
/// least one round of them.
inline std::uint64_t BlocksWithin(Nanoseconds time, Nanoseconds block, std::uint64_t at_once) {
  const std::int64_t rounds = block > Nanoseconds(0) ? time / block : 1;
  return at_once * static_cast<std::uint64_t>(std::max(rounds, std::int64_t{1}));
}

/// The room beside one active real-time job on a device of `units` units. Looks at the next
/// `kernels` kernels of the job (REEF 5: one). Kernels that do not depend on the one before may run
/// at the same time: they form a group, which may go beyond `kernels`, and the units that they need
/// add up. The room spans the first group, and each next group as long as that group leaves units
/// free and the longer room gives best-effort work no less unit time than a room for each group.
/// nullopt: the first group needs all units, or no kernel is left. `packed`: RoomRules::packed.
std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels,
                                      bool packed = false);

/// The room that begins later beside a real-time job whose next kernel, which the device has, needs
/// all units: with RoomRules::tails the tail of that kernel, where its last blocks leave units
/// free, or else the room beside what follows. Padding that waits for PaddingRoom::after may be
/// submitted at once, and begins without a step of the host. `now`: the device's time. nullopt: no
/// units are left then either, or other kernels of the job may run at the same time.
std::optional<PaddingRoom> LaterRoomBeside(const Job& job, std::uint32_t units,
                                           const RoomRules& rules, TimePoint now);

/// The version of a best-effort kernel to run in the room; nullopt: the kernel does not fit.
///
/// - Rule 1: one block, begun now, ends before the room does. For a kernel of an engine its longest
///   run so far counts (OpaqueOp::longest).
/// - Rule 2: a unit holds at least as many of its blocks as of the real-time kernels' blocks, so
///   that padding does not lower their occupancy. (REEF 5.2 has "higher"; the same lowers none.)
/// - Its blocks do not ask for more memory bandwidth than is left (REEF 7).
///
/// Among the versions that fit, returns the one that ends soonest on the room's units (REEF 5.3);
/// without PaddingRoom::versions there is only the plan's. Versions without a measured block time
/// do not count. `started`: the version in which blocks of the kernel have already run; no other
/// version is possible then.
std::optional<std::uint32_t> VersionBeside(const PlanOp& op, std::optional<std::uint32_t> started,
                                           const PaddingRoom& room);

/// Most blocks of the kernel in `version` that end before the room does, at least as many as run at
/// once.
std::uint32_t BlocksInRoom(const PlanOp& op, std::uint32_t version, const PaddingRoom& room);

/// The guard that revokes padding when its room ends.
inline Guard GuardOf(const PaddingRoom& room) {
  return {&room.until->done_word(), room.until->blocks() - 1, !room.leaves};
}

/// Chooses the version in which the job's next kernel runs: the one that VersionBeside() names, or
/// without a room the plan's own. A kernel that has started keeps its version. False: no version
/// fits into the room.
bool ChooseVersion(Job& job, const PaddingRoom* room);

/// Finds the room beside all active real-time jobs and the best-effort jobs that pad it, each on
/// units of its own (REEF 5.2: until no unit or candidate is left).
class Padding {
 public:
  /// The indexes are the mechanism's.
  Padding(const Device& device, const ReadyIndex& ready, JobsById& jobs, const ActiveJobs& active)
      : device_(device),
        ready_(ready),
        jobs_(jobs),
        active_(active),
        watched_(device.info().max_launches + device.info().max_background_launches),
        deps_(watched_.size()) {
    jobs_inside_.reserve(device.info().max_launches);
  }

  /// The room that all active real-time jobs leave together: the units that none of them needs, for
  /// the shortest of their times. Looks at the next `kernels` kernels of each job. nullopt: no unit
  /// is left, or no real-time job has a kernel left.
  std::optional<PaddingRoom> FindRoom(const RoomRules& rules) const;
  /// The room that begins when `room` ends, beside the only real-time job: padding that waits for
  /// it begins with the kernel that it pads (REEF 5.1: they are one launch). nullopt: there are
  /// several real-time jobs, the next kernel needs all units or may run beside those of `room`, or
  /// the device does not have those yet.
  std::optional<PaddingRoom> RoomAfter(const PaddingRoom& room, const RoomRules& rules) const;
  /// The ready best-effort job to pad with: the policy's choice if its next kernel fits into the
  /// room, else the first job in the policy's order that fits, among the first `most`. Null: none.
  Job* Pick(const PaddingRoom& room, Policy& policy, std::uint32_t most);
  /// How many jobs Pick() has looked at since the start.
  std::uint64_t candidates() const { return candidates_; }
  /// The units of the room for the next kernel of a job of which `free` are free: those that the
  /// job has in the room already, else as many as the kernel has blocks.
  std::uint32_t UnitsFor(const Job& job, const PaddingRoom& room, std::uint32_t free) const;
  /// The room as a job sees it that gets `units` of its units: without the bandwidth that the other
  /// jobs inside take. `job`: null if it is not known yet.
  PaddingRoom PartOf(const PaddingRoom& room, std::uint32_t units, const Job* job) const;

  /// A job that has kernels in flight as padding.
  struct Inside {
    Job* job = nullptr;
    std::uint32_t kernels = 0;        // in flight as padding
    std::uint32_t units = 0;          // of the room, for the job alone
    std::uint64_t bandwidth_ppm = 0;  // the most that a kernel of the job takes there
    const Progress* until = nullptr;  // PaddingRoom::until of the last kernel
  };
  /// They keep their places while no kernel retires.
  std::span<const Inside> inside() const { return jobs_inside_; }
  bool Has(const Job& job) const { return Find(job) != nullptr; }
  /// The units of the room that no job inside has.
  std::uint32_t FreeUnits(const PaddingRoom& room) const;

  /// Makes the launch wait for the beginning of the room. False: the launch has too many
  /// dependencies for that, and is unchanged.
  bool WaitFor(const PaddingRoom& room, Launch& launch);

  /// A kernel of the job was submitted as padding. The launch has a guard on a record of the
  /// real-time job. The records live until Remove(), even if the real-time job has ended by then
  /// and its plan is gone.
  void Add(Job& job, LaunchId launch, const PaddingRoom& room);
  /// The room has changed: what is inside counts for no room until its next kernel.
  void Forget() {
    for (Inside& inside : jobs_inside_) inside.until = nullptr;
  }
  /// A kernel of the job that was submitted as padding has retired.
  void Remove(const Job& job, LaunchId launch);

 private:
  static constexpr std::size_t kMostDeps = 8;

  bool Fits(const Job& job, const PaddingRoom& room);

  const Inside* Find(const Job& job) const;
  std::optional<PaddingRoom> RoomOf(const Job& job, const RoomRules& rules) const;
  /// Applies the rules to a room beside real-time work that needs `taken` units.
  std::optional<PaddingRoom> Ruled(PaddingRoom room, const RoomRules& rules, std::uint32_t taken,
                                   std::uint64_t bandwidth_ppm) const;

  const Device& device_;
  const ReadyIndex& ready_;
  JobsById& jobs_;
  const ActiveJobs& active_;
  std::vector<Inside> jobs_inside_;
  std::uint64_t candidates_ = 0;
  std::vector<std::shared_ptr<const ProgressRecords>> watched_;  // by the launch's slot
  std::vector<std::array<Dep, kMostDeps>> deps_;  // of launches that wait for a room; the same
};

}  // namespace lagoon
