#pragma once

// Normalisation of rows: layer, instance, group and root-mean-square norms.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// Longest row of one kernel, and longest piece of a row of two. It is read and written without a
/// guard check between.
inline constexpr std::size_t kMaxNormalizeRow = 16'384;

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over each row of x [rows, row]. Element
/// j of row i uses scale and bias number (i % period) * (row / inner) + j / inner: one per element
/// of a row (period 1, inner 1), or one per channel.
struct NormalizeSpec {
  std::size_t rows = 1, row = 1;
  std::size_t period = 1, inner = 1;
  float epsilon = 1e-5f;
  bool scale = true, bias = true;
  bool center = true;  // false: the mean is taken as 0
  /// MakeMoments() has read x before: rows have any length, and many blocks share one.
  bool moments = false;

  std::size_t pieces() const { return (row + kMaxNormalizeRow - 1) / kMaxNormalizeRow; }
};

/// Inputs: x, the moments (if the spec has them), scale [period * row / inner], bias of the same
/// shape (if the spec has them). Output: y, which must not overlap an input. kInvalidArgument if a
/// size is zero, `inner` does not divide the row, or the row is too long.
Result<Kernel> MakeNormalize(const NormalizeSpec& spec);

/// Of each piece of each row of x the mean, or 0 without `center`, and the sum of the squares of
/// the differences from it. Input: x. Output: moments [rows, spec.pieces(), 2].
Result<Kernel> MakeMoments(const NormalizeSpec& spec);

}  // namespace lagoon
