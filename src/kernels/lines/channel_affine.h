#pragma once

// Scale and shift per channel, of tensors that are joined along their channels at the same time.

#include <cstddef>
#include <vector>

#include "kernels/kernel.h"

namespace lagoon {

inline constexpr std::size_t kMaxAffineParts = 64;

struct ChannelAffineSpec {
  std::size_t rows = 1;               // rows of every part: the pixels of all images
  std::vector<std::size_t> channels;  // channels of each part
  Epilogue epilogue = {};             // activation only
};

/// y[row][c] = activation(x[row][c] * scale[c] + shift[c]), where x is the parts joined along the
/// channels. Inputs: scale and shift [sum of channels], then the parts [rows][channels of the
/// part]. Output: y, which must not overlap an input. kInvalidArgument if there is no part or more
/// than kMaxAffineParts, a size is zero, y is too large, or the epilogue has a residual.
Result<Kernel> MakeChannelAffine(const ChannelAffineSpec& spec);

}  // namespace lagoon
