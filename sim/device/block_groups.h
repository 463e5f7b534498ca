#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "sim/device/sim_launch.h"

namespace lagoon {

/// Blocks of one launch that started together and end together. They share one timer.
struct BlockGroup {
  static constexpr std::uint32_t kMaxBlocks = 32;

  std::uint32_t launch = 0, count = 0;
  // In the launch's list. Of a free group: `after` is the next free group.
  std::uint32_t before = kNoIndex, after = kNoIndex;
  bool leaves = false;  // its blocks end without a result
  bool killed = false;  // its tiles were given back when it was killed
  TimePoint start, end;
  std::array<std::uint32_t, kMaxBlocks> tiles;
  std::array<std::uint16_t, kMaxBlocks> units;
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
  std::uint32_t Take(SimLaunch& launch, std::uint32_t index, TimePoint start, TimePoint end) {
    const std::uint32_t taken = free_;
    BlockGroup& group = groups_[taken];
    free_ = group.after;
    group.launch = index;
    group.count = 0;
    group.leaves = group.killed = false;
    group.start = start;
    group.end = end;
    group.before = kNoIndex;
    group.after = launch.groups;
    if (launch.groups != kNoIndex) groups_[launch.groups].before = taken;
    launch.groups = taken;
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
