#pragma once

// Reductions of one axis.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

enum class ReduceOp : std::uint8_t { kSum, kMean, kMax, kMin };

/// Of the middle axis of [outer, axis, inner] to [outer, inner]; global pooling of NHWC is
/// outer = batch, axis = height*width, inner = channels.
struct ReduceSpec {
  ReduceOp op = ReduceOp::kMean;
  std::size_t outer = 1, axis = 1, inner = 1;
};

/// Input x [outer, axis, inner], output y [outer, inner]; no overlap. Each output belongs to one
/// block, so that the result does not depend on how blocks run. A NaN among the elements of kMax
/// and kMin gives an unspecified one of them. kInvalidArgument when a size is zero or the product
/// is too large.
Result<Kernel> MakeReduce(const ReduceSpec& spec);

}  // namespace lagoon
