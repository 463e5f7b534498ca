#pragma once

// Ops that move elements, whatever their type: `element_bytes` is 1, 2, 4 or 8.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace lagoon {

inline constexpr std::size_t kMaxConcatInputs = 16;

/// Joins inputs [outer, axes[i], inner] into [outer, sum(axes), inner]. Inputs x_0, x_1, ...;
/// output y, no overlap. kInvalidArgument when there is no input or more than kMaxConcatInputs, a
/// size is zero, or y is too large.
Result<Kernel> MakeConcat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                          std::size_t element_bytes = 4);

/// y[i, ...] = x[start + sum of i * strides]: any part of a dense tensor, backwards and broadcast
/// too. Input x, output y, no overlap. kInvalidArgument when the ranks differ, a size is not
/// positive, or there are more than 8 axes that cannot be joined. What is read lies in x: the
/// caller checks.
struct StridedCopySpec {
  std::vector<std::int64_t> out = {};      // dims of y
  std::vector<std::int64_t> strides = {};  // in elements of x, one per axis of y
  std::int64_t start = 0;                  // in elements from the pointer to x
  std::size_t element_bytes = 4;
  Epilogue epilogue = {};  // a function (Activation::kUnary) or nothing; of fp32
};
Result<Kernel> MakeStridedCopy(const StridedCopySpec& spec);

/// y[i, j, ...] = x[maps[0][i], maps[1][j], ...], and `fill` where one of them is negative: pads,
/// repeats, mirrors, resizes to the nearest pixel. kInvalidArgument when the ranks differ, a size
/// is not positive, or a map leaves x.
struct TakeSpec {
  std::vector<std::int64_t> dims = {};               // of x
  std::vector<std::vector<std::int64_t>> maps = {};  // per axis: an index of x for each of y
  std::size_t element_bytes = 4;
  std::uint64_t fill = 0;  // the bits of the element
};
/// The kernel and the table that is its second input: x, table; y. No overlap.
struct TakeKernel {
  Kernel kernel;
  std::vector<std::int64_t> table;
};
Result<TakeKernel> MakeTake(const TakeSpec& spec);

}  // namespace lagoon
