#pragma once

// Ops that only move elements: concat, pad, slice.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernel.h"

namespace lagoon {

inline constexpr std::size_t kMaxConcatInputs = 16;
inline constexpr std::size_t kMaxShapeRank = 6;

/// Joins inputs [outer, axes[i], inner] into [outer, sum(axes), inner]. Inputs x_0, x_1, ...;
/// output y, no overlap. kInvalidArgument when there is no input or more than kMaxConcatInputs, a
/// size is zero, or y is too large.
Result<Kernel> MakeConcat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner);

/// Constant padding of x: `before` and `after` elements of `value` per axis. Input x, output y, no
/// overlap. kInvalidArgument when the ranks differ, are zero or above kMaxShapeRank, a size is not
/// positive, or a padding is negative.
Result<Kernel> MakePad(std::span<const std::int64_t> dims, std::span<const std::int64_t> before,
                       std::span<const std::int64_t> after, float value);

/// y[i, ...] = x[starts + i * steps, ...] along every axis. Input x, output y, no overlap.
/// kInvalidArgument when the ranks differ, are zero or above kMaxShapeRank, a size or step is not
/// positive, or the slice leaves x.
Result<Kernel> MakeSlice(std::span<const std::int64_t> dims, std::span<const std::int64_t> starts,
                         std::span<const std::int64_t> out_dims,
                         std::span<const std::int64_t> steps);

}  // namespace lagoon
