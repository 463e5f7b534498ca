#pragma once

// 2-D convolution in groups: every group of output channels sees its own group of input channels.
// One group is conv2d's, one channel a group depthwise's.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// Shapes in elements, NHWC; channels are those of all groups. Padding at the bottom and right is
/// what the output's size implies.
struct GroupedConvSpec {
  std::uint32_t batch = 1, height = 1, width = 1, in_channels = 1;
  std::uint32_t out_height = 1, out_width = 1, out_channels = 1, groups = 1;
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
  bool bias = false;
  Epilogue epilogue = {};  // activation only
};

/// Inputs: x [batch,height,width,in_channels], packed weights, bias [out_channels] if `bias`.
/// Output: y [batch,out_height,out_width,out_channels]; it must not overlap the inputs.
/// kInvalidArgument names the field when a size is zero, a product overflows, `groups` does not
/// divide the channels, a residual is asked for, or not FitsGroupedConv().
Result<Kernel> MakeGroupedConv(const GroupedConvSpec& spec);

/// Whether the input of the smallest tile is small enough to be copied between two guard checks
/// and into a block's memory: windows of any model are, a dilation of thousands is not. Needs
/// sizes that are not zero.
bool FitsGroupedConv(const GroupedConvSpec& spec);

/// Size and making of the packed weights, for the instruction set of this machine. `weights`:
/// [out_channels][in_channels / groups][kernel_h][kernel_w].
std::size_t PackedGroupedConvWeightBytes(const GroupedConvSpec& spec);
void PackGroupedConvWeights(const GroupedConvSpec& spec, const float* weights, void* packed);

}  // namespace lagoon
