#pragma once

// The state of a resident block. Internal to this layer.

#include <memory>
#include <string>
#include <vector>

#include "simt/emulator.h"
#include "simt/fiber.h"
#include "simt/thread.h"

namespace lagoon::simt {

inline constexpr unsigned kWarpLanes = 32;

enum class LaneState : std::uint8_t { kReady, kAtBarrier, kInWarpCall, kEnded };

struct AsyncCopy {
  void* target;
  const void* source;
  std::size_t bytes, target_bytes;
};

/// A thread of a block.
struct Lane {
  Fiber fiber;
  Block* block = nullptr;
  unsigned id = 0;  // linear, in the block
  ThreadIndex index = {};
  LaneState state = LaneState::kEnded;
  Site site = {};  // where it waits
  // Arguments of the warp call that it waits in.
  WarpOp op = nullptr;
  std::uint32_t mask = 0;
  const void* in = nullptr;
  void* out = nullptr;
  // Oldest first. `groups`: length of each committed group. Copies behind these are not committed.
  std::vector<AsyncCopy> copies;
  std::vector<std::size_t> groups;
};

struct FreeShared {
  void operator()(unsigned char* memory) const;
};

/// A place for a block on a multiprocessor.
struct Block {
  LaunchState* launch = nullptr;  // null: idle
  unsigned index = 0;             // linear, in the grid
  unsigned multiprocessor = 0;
  unsigned threads = 0;
  std::vector<std::unique_ptr<Lane>> lanes;  // grows to the largest block so far
  std::vector<unsigned> ready;               // lanes that can run, per warp
  unsigned ended = 0, at_barrier = 0, true_at_barrier = 0;
  unsigned barrier_result = 0;
  std::uint64_t barriers = 0;
  bool yielded = false;  // a lane called Yield()
  std::string fault;
  std::uint64_t* random = nullptr;  // the emulator's state
  std::unique_ptr<unsigned char, FreeShared> dynamic_shared;
};

struct LaunchState {
  Grid launch;
  std::vector<unsigned> order;  // in which the blocks begin
  std::size_t begun = 0, ended = 0;
  std::uint64_t steps = 0;
};

/// Advances `state` and returns the next number of its sequence (splitmix64).
inline std::uint64_t NextRandom(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Lets the lane run its launch's kernel from the start.
void StartLane(Lane& lane);
/// Forgets a lane in the middle of its kernel.
void DropLane(Lane& lane);
/// Runs the lane until it waits or ends.
void RunLane(Lane& lane);

}  // namespace lagoon::simt
