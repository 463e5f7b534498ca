#pragma once

// Reductions of one axis.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

enum class ReduceOp : std::uint8_t { kSum, kMean, kMax, kMin };

/// Reduces the middle axis of [outer, axis, inner], giving [outer, inner]. Global pooling of NHWC
/// has outer = batch, axis = height * width, inner = channels.
struct ReduceSpec {
  ReduceOp op = ReduceOp::kMean;
  std::size_t outer = 1, axis = 1, inner = 1;
};

/// Input x [outer, axis, inner], output y [outer, inner], which must not overlap x. One block
/// computes all of an output, so that the result does not depend on the order of blocks. kMax and
/// kMin of a NaN are NaN. kInvalidArgument if a size is zero or the product is too large.
Result<Kernel> MakeReduce(const ReduceSpec& spec);

}  // namespace lagoon
