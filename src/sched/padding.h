#pragma once

// Where best-effort kernels fit beside real-time ones (REEF 5).

#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "sched/job_launches.h"
#include "sched/job_queue.h"
#include "sched/policy.h"

namespace lagoon {

/// Units that real-time work leaves free for a while.
struct PaddingRoom {
  std::uint32_t units = 0;
  std::uint32_t taken = 0;          // units that the real-time work needs
  Nanoseconds time{0};              // expected duration
  std::uint32_t occupancy = 0;      // the largest one of the real-time kernels
  const Progress* until = nullptr;  // the room ends when this real-time kernel is complete
  const std::shared_ptr<ProgressRecords>* records = nullptr;  // where `until` lies
};

/// Units of the room for jobs of the queue. Real-time work may need any units of the queue's share,
/// so that a share loses as many units as the device. 0: none.
std::uint32_t UnitsIn(const PaddingRoom& room, const JobQueue& queue);

/// The room beside one active real-time job on a device of `units` units. Looks at the next
/// `kernels` kernels of the job (REEF 5: one). Kernels that do not depend on the one before may run
/// at the same time: they form a group, which may go beyond `kernels`, and the units that they need
/// add up. The room spans the first group, and each next group as long as that group leaves units
/// free and the longer room gives best-effort work no less unit time than a room for each group.
/// nullopt: the first group needs all units, or no kernel is left.
std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels);

/// The version of a best-effort kernel to run in the room; nullopt: the kernel does not fit.
///
/// - Rule 1: one block takes less time than the room lasts. For a kernel of an engine that is its
///   longest run so far (OpaqueOp::longest).
/// - Rule 2: a unit holds at least as many of its blocks as of the real-time kernels' blocks, so
///   that padding does not lower their occupancy.
///
/// Among the versions that fit, returns the one that ends soonest on the room's units (REEF 5.3).
/// Versions without a measured block time do not count. `started`: the version in which blocks of
/// the kernel have already run; no other version is possible then.
std::optional<std::uint32_t> VersionBeside(const PlanOp& op, std::optional<std::uint32_t> started,
                                           const PaddingRoom& room);

/// The guard that revokes padding when its room ends.
inline Guard GuardOf(const PaddingRoom& room) {
  return {&room.until->done_word(), room.until->blocks() - 1, false};
}

/// Chooses the version in which the job's next kernel runs: the one that VersionBeside() names, or
/// without a room the plan's own. A kernel that has started keeps its version. False: no version
/// fits into the room.
bool ChooseVersion(Job& job, const PaddingRoom* room);

/// Finds the room beside all active real-time jobs and the best-effort job that pads it. One job
/// pads at a time, so that padding does not take more units than the room has for long.
class Padding {
 public:
  /// The indexes are the mechanism's.
  Padding(const Device& device, const ReadyIndex& ready, JobsById& jobs, const ActiveJobs& active)
      : device_(device),
        ready_(ready),
        jobs_(jobs),
        active_(active),
        watched_(device.info().max_launches) {}

  /// The room that all active real-time jobs leave together: the units that none of them needs, for
  /// the shortest of their times. Looks at the next `kernels` kernels of each job. nullopt: no unit
  /// is left, or no real-time job has a kernel left.
  std::optional<PaddingRoom> FindRoom(std::uint32_t kernels) const;
  /// The ready best-effort job to pad with: the policy's choice if its next kernel fits into the
  /// room, else the first job in the policy's order that fits, among the first 8. Null: none.
  Job* Pick(const PaddingRoom& room, Policy& policy) const;

  /// A kernel of the job was submitted as padding. job() is null or this job. The launch has a
  /// guard on a record of the real-time job. The records live until Remove(), even if the real-time
  /// job has ended by then and its plan is gone.
  void Add(Job& job, LaunchId launch, const PaddingRoom& room) {
    job_ = &job;
    ++kernels_;
    watched_[JobLaunches::SlotOf(launch)] = *room.records;
  }
  /// A kernel that was submitted as padding has retired.
  void Remove(LaunchId launch) {
    --kernels_;
    watched_[JobLaunches::SlotOf(launch)] = nullptr;
  }
  /// The job with kernels in flight as padding, or null.
  Job* job() const { return kernels_ > 0 ? job_ : nullptr; }

 private:
  const Device& device_;
  const ReadyIndex& ready_;
  JobsById& jobs_;
  const ActiveJobs& active_;
  std::uint32_t kernels_ = 0;  // in flight as padding
  Job* job_ = nullptr;         // the job of these kernels; valid while there are any
  std::vector<std::shared_ptr<const ProgressRecords>> watched_;  // by the launch's slot
};

}  // namespace lagoon
