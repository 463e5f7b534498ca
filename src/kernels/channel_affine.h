#pragma once

// Scale and shift per channel, of tensors that are joined along their channels on the way.

#include <cstddef>
#include <vector>

#include "kernels/kernel.h"

namespace lagoon {

inline constexpr std::size_t kMaxAffineParts = 64;

struct ChannelAffineSpec {
  std::size_t rows = 1;               // of every part: pixels of images
  std::vector<std::size_t> channels;  // of each part
  Epilogue epilogue = {};             // activation only
};

/// y[row][c] = activation(x[row][c] * scale[c] + shift[c]), where x is the parts side by side.
/// Inputs: scale and shift [sum of channels], then the parts [rows][channels of it]. Output: y, no
/// overlap. kInvalidArgument when there is no part or more than kMaxAffineParts, a size is zero, y
/// is too large, or a residual is asked for.
Result<Kernel> MakeChannelAffine(const ChannelAffineSpec& spec);

}  // namespace lagoon
