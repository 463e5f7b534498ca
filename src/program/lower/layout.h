#pragma once

// Layouts of values in device memory, and the permutations between layouts.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/tensor.h"

namespace lagoon {

enum class Layout : std::uint8_t {
  kPlain,  // dense row-major in the order of the value's dims (images: NCHW)
  /// Rank 4: NHWC. Rank 3: NLC. Rank 5, an image with its channels split in two axes [N,A,B,H,W]:
  /// NHWAB. No other rank.
  kChannelsLast,
};

/// The logical axis that each physical axis holds, outermost first: {0,2,3,1} for an image in
/// kChannelsLast.
std::vector<std::int64_t> PhysicalOrder(std::size_t rank, Layout layout);

/// The dims in the order of the memory.
Dims PhysicalDims(const Dims& dims, Layout layout);

/// The physical axis that holds logical axis `axis` (0 <= axis < rank).
std::size_t PhysicalAxis(std::size_t rank, Layout layout, std::size_t axis);

/// y.dims[i] == x.dims[order[i]], both in physical axes.
struct Permutation {
  Dims dims;  // dims of x
  std::vector<std::int64_t> order;

  /// True if y's bytes equal x's, so that y can be a view of x. Valid only for a simplified
  /// permutation.
  bool IsFree() const { return order.size() <= 1; }
};

/// The same movement of bytes without axes of size 1, and with axes that stay neighbours merged.
Permutation Simplify(const Permutation& permutation);

/// The simplified permutation of memory that computes y = ONNX Transpose(x, order), with x in
/// layout `from` and y in layout `to`.
Permutation MovePermutation(const Dims& dims, Layout from, std::span<const std::int64_t> order,
                            Layout to);

/// The axes [first, last] of `dims` as `axis`, all axes before as `outer` and all axes after as
/// `inner`.
struct AxisSplit {
  std::size_t outer = 1, axis = 1, inner = 1;
};
AxisSplit SplitAt(const Dims& dims, std::size_t first, std::size_t last);

}  // namespace lagoon
