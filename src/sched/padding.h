#pragma once

// Where best-effort kernels fit beside real-time ones (REEF 5).

#include <optional>

#include "sched/job_queue.h"

namespace lagoon {

/// Units that real-time work leaves free for a while.
struct PaddingRoom {
  std::uint32_t units = 0;
  Nanoseconds time{0};              // expected
  std::uint32_t occupancy = 0;      // of the real-time kernels, the largest
  const Progress* until = nullptr;  // the real-time kernel with whose completion the room ends
};

/// The room beside one active real-time job on a device of `units`: the kernels that it runs next,
/// at most `kernels` of them (REEF 5: one), as long as they need fewer units than there are and one
/// room leaves best-effort work more of them than a room for each would. Kernels that do not depend
/// on the one before may run at the same time, so their needs add up. Nothing: the next kernel
/// needs all units, or none is left.
std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units, std::uint32_t kernels);

/// How to cut a best-effort kernel that runs in the room; nothing: it does not fit. Rule 1: one
/// block is shorter than the room. Rule 2: as many of its blocks fit into a unit as of the
/// real-time kernels, so that it does not lower their occupancy. Among the versions that fit, the
/// one that is through soonest on the room's units (REEF 5.3); versions that nobody measured do not
/// count. `started`: the version that blocks of it have run in; it stays with that.
std::optional<std::uint32_t> VersionBeside(const PlanOp& op, std::optional<std::uint32_t> started,
                                           const PaddingRoom& room);

/// The guard that makes padding leave when its room ends.
inline Guard GuardOf(const PaddingRoom& room) {
  return {&room.until->done_word(), room.until->blocks() - 1, false};
}

}  // namespace lagoon
