#pragma once

#include <cstdint>

namespace lagoon {

/// Functions of one number `x`. The code of every device is generated from these lists, or switches
/// over all names, so that a function without code does not compile.
///
/// Functions with a vector body on the CPU. They may be fused behind another op (Epilogue).
/// Definitions and parameters:
/// - Clip: min(beta, max(alpha, x))
/// - LeakyRelu: x < 0 ? alpha * x : x
/// - HardSwish: x * min(1, max(0, x / 6 + 0.5))
/// - HardSigmoid: min(1, max(0, alpha * x + beta))
/// - Gelu: the definition with erf; GeluTanh: the one with tanh
/// - Swish: x * sigmoid(x)
/// - Elu: x < 0 ? alpha * (exp(x) - 1) : x
/// - Round: halves to even
// clang-format off
#define LAGOON_VECTOR_UNARY_OPS(OP)                                         \
  OP(Relu) OP(Clip) OP(Sigmoid) OP(Tanh) OP(Exp) OP(Log) OP(Sqrt) OP(Abs)   \
  OP(Neg) OP(LeakyRelu) OP(HardSwish) OP(HardSigmoid) OP(Copy)              \
  OP(Reciprocal) OP(Erf) OP(Gelu) OP(GeluTanh) OP(Swish) OP(Softplus)       \
  OP(Mish) OP(Elu) OP(Floor) OP(Ceil) OP(Round)
// clang-format on

/// Functions of floats without a vector body:
/// - Celu: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
/// - Selu: beta * (x > 0 ? x : alpha * (exp(x) - 1))
/// - ThresholdedRelu: x > alpha ? x : 0
/// - Shrink: x < -alpha ? x + beta : x > alpha ? x - beta : 0
// clang-format off
#define LAGOON_SCALAR_UNARY_OPS(OP)                                         \
  OP(Sign) OP(Sin) OP(Cos) OP(Tan) OP(Asin) OP(Acos) OP(Atan) OP(Sinh)      \
  OP(Cosh) OP(Asinh) OP(Acosh) OP(Atanh) OP(Softsign) OP(Celu) OP(Selu)     \
  OP(ThresholdedRelu) OP(Shrink)
// clang-format on

/// Functions of flags and bits.
#define LAGOON_BIT_UNARY_OPS(OP) OP(Not) OP(BitwiseNot)

/// Tests of floats, with flags as results. IsInf: alpha and beta say whether negative and positive
/// infinity count.
#define LAGOON_TEST_UNARY_OPS(OP) OP(IsNan) OP(IsInf)

#define LAGOON_UNARY_OP_NAME(name) k##name,
// clang-format off
enum class UnaryOp : std::uint8_t {
  LAGOON_VECTOR_UNARY_OPS(LAGOON_UNARY_OP_NAME)
  LAGOON_SCALAR_UNARY_OPS(LAGOON_UNARY_OP_NAME)
  LAGOON_BIT_UNARY_OPS(LAGOON_UNARY_OP_NAME)
  LAGOON_TEST_UNARY_OPS(LAGOON_UNARY_OP_NAME)
};
// clang-format on
#undef LAGOON_UNARY_OP_NAME

}  // namespace lagoon
