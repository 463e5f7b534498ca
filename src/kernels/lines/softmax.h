#pragma once

// Softmax and log-softmax.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// Softmax over the middle axis of [outer, axis, inner].
struct SoftmaxSpec {
  std::size_t outer = 1, axis = 1, inner = 1;
  bool log = false;
};

/// Input x, output y, both [outer, axis, inner], which must not overlap. Numerically stable for any
/// finite x. kInvalidArgument if a size is zero or the product is too large.
Result<Kernel> MakeSoftmax(const SoftmaxSpec& spec);

}  // namespace lagoon
