#pragma once

// 2-D convolution in groups: every group of output channels reads its own group of input channels.
// conv2d computes convolutions with a single group, depthwise those with one channel per group.

#include <cstddef>
#include <cstdint>

#include "kernels/image_window.h"
#include "kernels/kernel.h"

namespace lagoon {

struct GroupedConvSpec {
  ImageWindow window = {};
  std::uint32_t in_channels = 1, out_channels = 1;  // of all groups
  std::uint32_t groups = 1;
  bool bias = false;
  Epilogue epilogue = {};  // activation only
};

/// Inputs: x [batch,height,width,in_channels], packed weights, bias [out_channels] if `bias`.
/// Output: y [batch,out_height,out_width,out_channels], which must not overlap an input.
/// kInvalidArgument names the field if a size is zero, a product overflows, `groups` does not
/// divide the channels, the epilogue has a residual, or FitsGroupedConv() is false.
Result<Kernel> MakeGroupedConv(const GroupedConvSpec& spec);

/// True if the input of the smallest tile fits a block's memory and can be copied between two guard
/// checks. The windows of all known models fit; a dilation of thousands does not. Sizes must not be
/// zero.
bool FitsGroupedConv(const GroupedConvSpec& spec);

/// Packed weights for the instruction set of this machine: their size, and the function that makes
/// them. `weights`: [out_channels][in_channels / groups][kernel_h][kernel_w].
std::size_t PackedGroupedConvWeightBytes(const GroupedConvSpec& spec);
void PackGroupedConvWeights(const GroupedConvSpec& spec, const float* weights, void* packed);

}  // namespace lagoon
