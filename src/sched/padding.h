#pragma once

// Where best-effort kernels fit beside real-time ones (REEF 5).

#include <optional>

#include "sched/job_queue.h"

namespace lagoon {

/// Units that real-time work leaves free for a while.
struct PaddingRoom {
  std::uint32_t units = 0;
  Nanoseconds time{0};              // expected
  const Progress* until = nullptr;  // the real-time kernel with whose completion the room ends
};

/// The room beside one active real-time job on a device of `units`: the kernels that it runs next
/// as long as they need fewer units than there are. Kernels that do not depend on the one before
/// may run at the same time, so their needs add up. Nothing: the next kernel needs all units, or
/// none is left. O(1): it looks at most kPaddingKernels ahead.
std::optional<PaddingRoom> RoomBeside(const Job& job, std::uint32_t units);
inline constexpr std::size_t kPaddingKernels = 16;

/// Rule 1: whether one block is shorter than the room.
inline bool FitsInto(const PaddingRoom& room, Nanoseconds block) { return block < room.time; }

/// The guard that makes padding leave when its room ends.
inline Guard GuardOf(const PaddingRoom& room) {
  return {&room.until->done_word(), room.until->blocks() - 1, false};
}

}  // namespace lagoon
