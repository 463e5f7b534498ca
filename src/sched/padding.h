#pragma once

// Where best-effort kernels fit beside real-time ones (REEF 5).

#include <optional>

#include "sched/job_queue.h"

namespace lagoon {

/// Units that real-time work leaves free for a while.
struct PaddingRoom {
  std::uint32_t units = 0;
  Nanoseconds time{0};              // expected duration
  std::uint32_t occupancy = 0;      // the largest one of the real-time kernels
  const Progress* until = nullptr;  // the room ends when this real-time kernel is complete
};

/// The room beside one active real-time job on a device of `units` units. Looks at the next
/// `kernels` kernels of the job (REEF 5: one). Kernels that do not depend on the one before may run
/// at the same time: they form a group, which may go beyond `kernels`, and the units that they need
/// add up. The room spans the first group, and each next group as long as that group leaves units
/// free and the longer room gives best-effort work no less unit time than a room for each group.
/// nullopt: the first group needs all units, or no kernel is left.
std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels);

/// The version of a best-effort kernel to run in the room; nullopt: the kernel does not fit.
///
/// - Rule 1: one block takes less time than the room lasts.
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

}  // namespace lagoon
