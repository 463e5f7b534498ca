#pragma once

// Ops that move elements of any type: `element_bytes` is 1, 2, 4 or 8.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace lagoon {

inline constexpr std::size_t kMaxConcatInputs = 16;

/// Joins inputs [outer, axes[i], inner] into [outer, sum(axes), inner]. Inputs x_0, x_1, ...;
/// output y, which must not overlap an input. `epilogue`: a function (Activation::kUnary) for fp32,
/// or nothing. kInvalidArgument if there is no input or more than kMaxConcatInputs, a size is zero,
/// or y is too large.
Result<Kernel> MakeConcat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                          std::size_t element_bytes = 4, const Epilogue& epilogue = {});

/// y[i, ...] = x[start + sum of i * strides]: any part of a dense tensor, also reversed or
/// broadcast. Input x, output y, which must not overlap x. kInvalidArgument if the ranks differ, a
/// size is not positive, or more than 8 axes cannot be joined. The caller checks that all reads lie
/// in x.
struct StridedCopySpec {
  std::vector<std::int64_t> out = {};      // dims of y
  std::vector<std::int64_t> strides = {};  // in elements of x, one per axis of y
  std::int64_t start = 0;                  // in elements from the pointer to x
  std::size_t element_bytes = 4;
  Epilogue epilogue = {};  // a function (Activation::kUnary) for fp32, or nothing
};
Result<Kernel> MakeStridedCopy(const StridedCopySpec& spec);

/// y[i, j, ...] = x[maps[0][i], maps[1][j], ...], or `fill` if one of these indices is negative.
/// Computes pads, repeats, mirrors and resizes to the nearest pixel. kInvalidArgument if the ranks
/// differ, a size is not positive, or a map leaves x.
struct TakeSpec {
  std::vector<std::int64_t> dims = {};  // dims of x
  /// Per axis of y: the index in x for each index in y.
  std::vector<std::vector<std::int64_t>> maps = {};
  std::size_t element_bytes = 4;
  std::uint64_t fill = 0;  // the bits of the element
};
/// The kernel and the table that is its second input. Inputs: x, table. Output: y, which must not
/// overlap an input.
struct TakeKernel {
  Kernel kernel;
  std::vector<std::int64_t> table;
};
Result<TakeKernel> MakeTake(const TakeSpec& spec);

}  // namespace lagoon
