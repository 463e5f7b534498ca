#pragma once

// 2-D convolution in groups: every group of output channels reads its own group of input channels.
// conv2d computes convolutions with a single group, depthwise those with one channel per group.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// Shapes in elements, NHWC; channel counts cover all groups. Padding at the bottom and right
/// follows from the output size.
struct GroupedConvSpec {
  std::uint32_t batch = 1, height = 1, width = 1, in_channels = 1;
  std::uint32_t out_height = 1, out_width = 1, out_channels = 1, groups = 1;
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
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
