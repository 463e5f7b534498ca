#pragma once

// The arguments that the factory of the depthwise convolution passes to its body.

#include "kernels/activation.h"
#include "kernels/conv/depthwise.h"
#include "kernels/tiling.h"

namespace lagoon {

struct DepthwiseArgs {
  const float* x = nullptr;
  const float* weights = nullptr;
  const float* bias = nullptr;  // null: none
  float* y = nullptr;
  DepthwiseSpec spec;
  Limits limits;
  Finish finish;
  std::uint32_t row_tiles = 1, column_tiles = 1, channel_tiles = 1;  // tiles per image
};

/// Channel tiles start at multiples of this: a cache line, which is also the widest vector.
inline constexpr std::size_t kDepthwiseChannelGrain = 16;

/// Whether the filter has an unrolled body.
inline bool IsUnrolled(const DepthwiseSpec& spec) {
  const ImageWindow& w = spec.window;
  const bool width = w.kernel_w == 3 || w.kernel_w == 5 || w.kernel_w == 7;
  return width && w.stride_w <= 2 && w.dilation_w == 1;
}

}  // namespace lagoon
