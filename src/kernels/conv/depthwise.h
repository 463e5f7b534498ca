#pragma once

// Depthwise 2-D convolution: every channel has its own filter (groups == in_channels ==
// out_channels).

#include <cstddef>
#include <cstdint>

#include "kernels/image_window.h"
#include "kernels/kernel.h"

namespace lagoon {

struct DepthwiseSpec {
  ImageWindow window = {};
  std::uint32_t channels = 1;
  bool bias = false;
  Epilogue epilogue = {};  // activation only
};

/// Inputs: x [batch,height,width,channels], packed weights, bias [channels] if `bias`. Output: y
/// [batch,out_height,out_width,channels], which must not overlap an input. kInvalidArgument names
/// the field if a size is zero, a product overflows, the filter has more than kMaxDepthwiseTaps
/// taps, or the epilogue has a residual.
Result<Kernel> MakeDepthwise(const DepthwiseSpec& spec);

/// Most taps of a filter, so that one pixel of a few channels stays far below the longest time
/// allowed between guard checks.
inline constexpr std::size_t kMaxDepthwiseTaps = 2048;

std::size_t PackedDepthwiseWeightBytes(const DepthwiseSpec& spec);
/// `weights`: [channels][1][kernel_h][kernel_w]; `packed`: [kernel_h][kernel_w][channels], so that
/// the body reads both operands along the channels.
void PackDepthwiseWeights(const DepthwiseSpec& spec, const float* weights, void* packed);

}  // namespace lagoon
