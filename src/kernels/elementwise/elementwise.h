#pragma once

// Elementwise ops: one operand, or two or three with broadcasting.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "plan/elementwise_list.h"
#include "plan/tensor.h"

namespace lagoon {

struct UnarySpec {
  UnaryOp op = UnaryOp::kRelu;
  std::size_t count = 0;
  double alpha = 0;
  double beta = 0;
  DataType type = DataType::kFloat32;  // type of x
};

/// Element type of y: x's type, or kBool.
DataType ResultType(UnaryOp op, DataType type);

/// Input: x [count]. Output: y [count]; y may be x if both are fp32, otherwise they must not
/// overlap. NaN stays NaN. kInvalidArgument if count is zero or too large, or kClip's alpha is
/// above beta; kUnimplemented if the op is not defined on the type.
Result<Kernel> MakeUnary(const UnarySpec& spec);

struct BinarySpec {
  BinaryOp op = BinaryOp::kAdd;
  std::vector<std::int64_t> a = {}, b = {}, out = {};
  Epilogue epilogue = {};              // activation only; only for fp32 ops with a vector body
  DataType type = DataType::kFloat32;  // type of a and b
};

/// Element type of y: the operands' type, or kBool.
DataType ResultType(BinaryOp op, DataType type);

/// Inputs: a, b of shapes that broadcast to `out` by numpy's rules. Output: y of shape `out`, which
/// may be an fp32 input of the same shape and must not overlap otherwise. kInvalidArgument names
/// the shapes if they do not broadcast to `out`, or if more than kMaxBroadcastAxes axes remain
/// after joining neighbouring axes that broadcast alike; kUnimplemented if the op is not defined on
/// the type.
Result<Kernel> MakeBinary(const BinarySpec& spec);

/// Inputs: condition (kBool), a, b (of `type`). y = condition ? a : b, all broadcast to `out`.
struct WhereSpec {
  std::vector<std::int64_t> condition = {}, a = {}, b = {}, out = {};
  DataType type = DataType::kFloat32;
};
Result<Kernel> MakeWhere(const WhereSpec& spec);

/// y = x converted to another type. A float outside an integer's range becomes the nearest bound,
/// NaN becomes 0.
Result<Kernel> MakeCast(std::size_t count, DataType from, DataType to);

/// y = round(x / scale) + zero point, halves to even, limited to the range of `quantized` (8 or 16
/// bits). Inputs: x [outer, axis, inner] and scale [axis] in fp32, zero point [axis] of type
/// `quantized`.
struct QuantizeSpec {
  std::size_t outer = 1, axis = 1, inner = 1;
  DataType quantized = DataType::kUInt8;
};
Result<Kernel> MakeQuantize(const QuantizeSpec& spec);
/// y = (x - zero point) * scale, in fp32. Inputs: x (`quantized`, also kInt32), scale (fp32), zero
/// point (`quantized`).
Result<Kernel> MakeDequantize(const QuantizeSpec& spec);

inline constexpr std::size_t kMaxBroadcastAxes = 8;

}  // namespace lagoon
