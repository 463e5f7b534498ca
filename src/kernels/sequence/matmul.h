#pragma once

// Products of two computed matrices, as in attention.

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

/// y[b..., i, j] = alpha * sum over p of a[b..., i, p] * b[b..., p, j]. The operands may have any
/// layout, given by strides in elements; y is dense row-major.
struct MatmulSpec {
  std::vector<std::int64_t> batch = {};                                  // dims of y before [m, n]
  std::vector<std::int64_t> a_batch_strides = {}, b_batch_strides = {};  // 0 broadcasts
  std::size_t m = 1, k = 1, n = 1;
  std::size_t a_row_stride = 1, a_k_stride = 1;
  std::size_t b_k_stride = 1, b_column_stride = 1;
  float alpha = 1;  // other than 1 only for fp32
  /// Or kFloat64, kInt32, kInt64, kUInt32, kUInt64, kInt16. kInt16: differences of bytes, from -255
  /// to 255; y is kInt32, and a_k_stride and b_column_stride must be 1.
  DataType type = DataType::kFloat32;
};

/// Inputs: a, b. Output: y. Integers wrap around. kInvalidArgument if a size is zero or too large;
/// kUnimplemented for other types.
Result<Kernel> MakeMatmul(const MatmulSpec& spec);

}  // namespace lagoon
