#pragma once

// Normalisation of rows: layer, instance, group and root-mean-square norms.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// No row is longer: it is read and written without a break between.
inline constexpr std::size_t kMaxNormalizeRow = 16'384;

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over each row of x [rows, row]. Element
/// j of row i has the parameters (i % period) * per_row + j / inner: per element of a row (period
/// 1, inner 1), or per channel.
struct NormalizeSpec {
  std::size_t rows = 1, row = 1;
  std::size_t period = 1, inner = 1;
  float epsilon = 1e-5f;
  bool scale = true, bias = true;
  bool center = true;  // false: mean is taken to be 0
};

/// Inputs: x, scale [period * row / inner], bias (those that the spec has). Output: y; no overlap.
/// kInvalidArgument when a size is zero, `inner` does not divide the row, or it is too long.
Result<Kernel> MakeNormalize(const NormalizeSpec& spec);

}  // namespace lagoon
