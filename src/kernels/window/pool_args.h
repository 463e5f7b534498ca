#pragma once

// The arguments that the factory of pooling passes to its body.

#include "device/block.h"
#include "kernels/tiling.h"
#include "kernels/window.h"
#include "kernels/window/pool.h"

namespace lagoon {

struct PoolArgs {
  const float* x = nullptr;
  float* y = nullptr;
  PoolSpec spec;
  std::uint32_t window_tiles = 1;   // shares of all windows of the batch, in order
  std::uint32_t channel_tiles = 1;  // tiles of channel_tile channels; the last may be smaller
  std::uint32_t channel_tile = 0;
  /// If true, a block computes one window of at most one vector, with guard checks between taps.
  bool long_windows = false;
};

/// Channel tiles start at multiples of this: a cache line, which is also the widest vector.
inline constexpr std::size_t kPoolChannelGrain = 16;

struct PoolBodies {
  Body max = nullptr, average = nullptr;
  std::size_t lanes = 0;
};

/// Number of taps that kAverageCountPadding counts: those inside the image and its padding.
inline std::size_t TapsWithPadding(const WindowAxis& axis, std::size_t pad_after,
                                   std::size_t output) {
  WindowAxis padded = axis;
  padded.size += axis.pad + pad_after;
  padded.pad = 0;
  return TapsOf(padded, output).count;
}

}  // namespace lagoon
