#pragma once

// What a move of a share costs, from the blocks that the device ran. Pure functions.

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "device/device.h"

namespace lagoon::bench {

/// One block of a model with a share.
struct ShareBlock {
  std::uint32_t unit = 0;
  std::uint32_t share = 0;  // Raw(ShareId)
  TimePoint begin, end;
};

/// A share has other units from `at` on.
struct ShareMove {
  std::uint32_t share = 0;
  UnitRange units;
  TimePoint at;
};

struct SwitchTimes {
  /// By move: from the move on, until a unit of the new share runs a block of the model. 0: one
  /// runs at that moment.
  std::vector<double> idle_us;
  /// By move: the first stretch, after the move, in which no unit at all runs a block of the model;
  /// less the median of such stretches of the model that no move is near to; at least 0.
  std::vector<double> gap_us;
  /// Moves after which no block of the model ran on the new units before the next move, or the
  /// end. Not in the lists.
  std::uint64_t without_block = 0;
};

/// `blocks`: all blocks of the run, in any order. `moves`: ascending by time.
SwitchTimes TimesOfSwitches(const std::vector<ShareBlock>& blocks,
                            const std::vector<ShareMove>& moves);

}  // namespace lagoon::bench
