#pragma once

// How a value's elements lie in device memory, and the permutations between layouts.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/tensor.h"

namespace lagoon {

enum class Layout : std::uint8_t {
  kPlain,  // dense row-major in the order of the value's dims (images: NCHW)
  /// NHWC; of rank 3 NLC; of rank 5 for an image whose channels are split in two axes, [N,A,B,H,W]:
  /// NHWAB. No other rank.
  kChannelsLast,
};

/// Which logical axis each physical axis holds, outermost first: {0,2,3,1} for an image in
/// kChannelsLast.
std::vector<std::int64_t> PhysicalOrder(std::size_t rank, Layout layout);

/// The dims as they lie in memory.
Dims PhysicalDims(const Dims& dims, Layout layout);

/// Where logical axis `axis` (0 <= axis < rank) lies in memory.
std::size_t PhysicalAxis(std::size_t rank, Layout layout, std::size_t axis);

/// y.dims[i] == x.dims[order[i]], both in physical axes.
struct Permutation {
  Dims dims;  // of x
  std::vector<std::int64_t> order;

  /// Whether y's bytes equal x's, so that y can be a view of x. Only of a simplified permutation.
  bool IsFree() const { return order.size() <= 1; }
};

/// The same movement of bytes with unit axes dropped and axes that stay neighbours merged.
Permutation Simplify(const Permutation& permutation);

/// The simplified permutation of memory that computes y = ONNX Transpose(x, order), where x lies in
/// layout `from` and y shall lie in layout `to`.
Permutation MovePermutation(const Dims& dims, Layout from, std::span<const std::int64_t> order,
                            Layout to);

/// The middle axes [first, last] of `dims` with all before as `outer` and all after as `inner`.
struct AxisSplit {
  std::size_t outer = 1, axis = 1, inner = 1;
};
AxisSplit SplitAt(const Dims& dims, std::size_t first, std::size_t last);

}  // namespace lagoon
