#pragma once

// Elementwise ops: one operand, or two or three with broadcasting.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/binary_op.h"
#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

struct UnarySpec {
  UnaryOp op = UnaryOp::kRelu;
  std::size_t count = 0;
  double alpha = 0;
  double beta = 0;
  DataType type = DataType::kFloat32;  // of x
};

/// What y holds: x's type, or kBool.
DataType ResultType(UnaryOp op, DataType type);

/// Input: x [count]. Output: y [count]; y may be x if both are fp32, no other overlap. NaN stays
/// NaN. kInvalidArgument when count is zero or too large, or kClip's alpha is above beta;
/// kUnimplemented when the op is not defined on the type.
Result<Kernel> MakeUnary(const UnarySpec& spec);

struct BinarySpec {
  BinaryOp op = BinaryOp::kAdd;
  std::vector<std::int64_t> a = {}, b = {}, out = {};
  Epilogue epilogue = {};              // activation only; of fp32 with a vector body
  DataType type = DataType::kFloat32;  // of a and b
};

/// What y holds: the operands' type, or kBool.
DataType ResultType(BinaryOp op, DataType type);

/// Inputs: a, b of shapes that broadcast to `out` as numpy does. Output: y of shape `out`; it may
/// be an fp32 input of the same shape, no other overlap. kInvalidArgument names the shapes when
/// they do not broadcast to `out`, or need more than kMaxBroadcastAxes axes after axes that
/// broadcast alike are joined; kUnimplemented when the op is not defined on the type.
Result<Kernel> MakeBinary(const BinarySpec& spec);

/// Inputs: condition (kBool), a, b (of `type`). y = condition ? a : b, all broadcast to `out`.
struct WhereSpec {
  std::vector<std::int64_t> condition = {}, a = {}, b = {}, out = {};
  DataType type = DataType::kFloat32;
};
Result<Kernel> MakeWhere(const WhereSpec& spec);

/// y = x as another type: a float outside an integer's range becomes the nearest bound, NaN 0.
Result<Kernel> MakeCast(std::size_t count, DataType from, DataType to);

/// y = round(x / scale) + zero point, halves to even, limited to the range of `quantized` (8 or 16
/// bits). Inputs x [outer, axis, inner], scale and zero point [axis], all fp32 but the last, which
/// is `quantized`.
struct QuantizeSpec {
  std::size_t outer = 1, axis = 1, inner = 1;
  DataType quantized = DataType::kUInt8;
};
Result<Kernel> MakeQuantize(const QuantizeSpec& spec);
/// y = (x - zero point) * scale, fp32. Inputs x and zero point `quantized` (also kInt32), scale
/// fp32; in the order x, scale, zero point.
Result<Kernel> MakeDequantize(const QuantizeSpec& spec);

inline constexpr std::size_t kMaxBroadcastAxes = 8;

}  // namespace lagoon
