#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "sim/device/sim_launch.h"
#include "sim/device/units.h"

namespace lagoon {

/// Blocks of one launch that started together, run at the same speed and end together. They share
/// one timer.
struct BlockGroup {
  static constexpr std::uint32_t kMaxBlocks = 32;

  std::uint32_t launch = 0, count = 0;
  // In the launch's list. Of a free group: `after` is the next free group.
  std::uint32_t before = kNoIndex, after = kNoIndex;
  bool leaves = false;  // its blocks end without a result
  bool killed = false;  // its tiles were given back when it was killed
  TimePoint start, since;
  // Work is time at full speed, times kFullSpeed. `left`: until the end, at `since`.
  std::int64_t work = 0, left = 0;
  std::int64_t speed = kFullSpeed;  // since `since`
  // The last group that blocks of this one moved to, and when (SimEngine::Reprice).
  std::uint32_t split = kNoIndex;
  std::uint64_t split_pass = 0;
  std::array<std::uint32_t, kMaxBlocks> tiles;
  std::array<std::uint16_t, kMaxBlocks> units;
  std::array<std::uint8_t, kMaxBlocks> seats;  // on these units

  TimePoint end() const { return since + Nanoseconds((left + speed - 1) / speed); }
  /// The work is done up to `now`, and goes on at `next_speed`.
  void Continue(TimePoint now, std::int64_t next_speed) {
    left -= (now - since).count() * speed;
    since = now;
    speed = next_speed;
  }
};

/// The running blocks of a simulated GPU, in groups. Each launch has a list of its groups
/// (SimLaunch::groups). Externally locked. Nothing allocates after construction.
class BlockGroups {
 public:
  explicit BlockGroups(std::uint32_t capacity) : groups_(capacity) {
    for (std::uint32_t i = capacity; i-- > 0;) {
      groups_[i].after = free_;
      free_ = i;
    }
  }

  BlockGroup& operator[](std::uint32_t index) { return groups_[index]; }
  const BlockGroup& operator[](std::uint32_t index) const { return groups_[index]; }

  /// Takes a free group and puts it into the list of `launch`, whose index is `index`. There must
  /// be a free group: as many as blocks can run.
  std::uint32_t Take(SimLaunch& launch, std::uint32_t index, TimePoint start, std::int64_t work) {
    const std::uint32_t taken = free_;
    BlockGroup& group = groups_[taken];
    free_ = group.after;
    group.launch = index;
    group.count = 0;
    group.leaves = group.killed = false;
    group.start = group.since = start;
    group.work = group.left = work;
    group.speed = kFullSpeed;
    group.split = kNoIndex;
    group.before = kNoIndex;
    group.after = launch.groups;
    if (launch.groups != kNoIndex) groups_[launch.groups].before = taken;
    launch.groups = taken;
    return taken;
  }

  /// A free group of the same launch, work and moments as `index`, still without blocks. There must
  /// be a free group: `index` has at least two blocks.
  std::uint32_t Split(SimLaunch& launch, std::uint32_t index) {
    const BlockGroup& from = groups_[index];
    const std::uint32_t taken = Take(launch, from.launch, from.start, from.work);
    BlockGroup& group = groups_[taken];
    group.since = from.since;
    group.left = from.left;
    group.speed = from.speed;
    group.leaves = from.leaves;
    return taken;
  }

  void Free(SimLaunch& launch, std::uint32_t index) {
    BlockGroup& group = groups_[index];
    (group.before == kNoIndex ? launch.groups : groups_[group.before].after) = group.after;
    if (group.after != kNoIndex) groups_[group.after].before = group.before;
    group.after = free_;
    free_ = index;
  }

 private:
  std::vector<BlockGroup> groups_;
  std::uint32_t free_ = kNoIndex;
};

}  // namespace lagoon
