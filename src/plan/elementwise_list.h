#pragma once

// The functions of elementwise ops, one row each. What the fields mean: plan/elementwise_ops.h. How
// to add a row: docs/contributing.md. Compilers for GPUs read this file too; they read only the
// names, and have no standard library.

#include <cstdint>

namespace lagoon {

// clang-format off

/// Functions of one float. The CPU has a vector body for fp32, so that an op before may apply the
/// function too (Epilogue).
/// - Clip: min(beta, max(alpha, x))
/// - LeakyRelu: x < 0 ? alpha * x : x
/// - HardSwish: x * min(1, max(0, x / 6 + 0.5))
/// - HardSigmoid: min(1, max(0, alpha * x + beta))
/// - Gelu: the definition with erf; GeluTanh: the one with tanh
/// - Swish: x * sigmoid(x)
/// - Elu: x < 0 ? alpha * (exp(x) - 1) : x
/// - Round: halves to even
/// - FakeQuantize: alpha * min(beta + 255, max(beta, round(x / alpha))), an 8-bit QuantizeLinear
///   and its DequantizeLinear; alpha: the scale, beta: the least integer minus the zero point
#define LAGOON_VECTOR_UNARY_OPS(OP)                                                                \
  OP(Relu, .since = 6, .row_ns = kShortNs)                                                         \
  OP(Clip, .alpha = {"min", -kInfinity}, .beta = {"max", kInfinity}, .row_ns = kShortNs)           \
  OP(Sigmoid, .since = 6, .fuses = true, .vector_ns = 2)                                           \
  OP(Tanh, .since = 6, .fuses = true, .vector_ns = 2)                                              \
  OP(Exp, .since = 6, .folds = true, .fuses = true, .vector_ns = 2)                                \
  OP(Log, .since = 6, .folds = true, .vector_ns = 2)                                               \
  OP(Sqrt, .since = 6, .folds = true, .vector_ns = 0.7, .row_ns = kShortNs)                        \
  OP(Abs, .since = 6, .folds = true, .row_ns = kShortNs)                                           \
  OP(Neg, .since = 6, .folds = true, .row_ns = kShortNs)                                           \
  OP(LeakyRelu, .since = 6, .alpha = {"alpha", 0.01F}, .fuses = true, .row_ns = kShortNs)          \
  OP(HardSwish, .since = 14, .fuses = true, .row_ns = kShortNs)                                    \
  OP(HardSigmoid, .since = 6, .alpha = {"alpha", 0.2F}, .beta = {"beta", 0.5F}, .fuses = true,     \
     .row_ns = kShortNs)                                                                           \
  OP(Copy, .row_ns = kShortNs)                                                                     \
  OP(Reciprocal, .since = 6, .folds = true, .vector_ns = 0.7, .row_ns = kShortNs)                  \
  OP(Erf, .since = 9, .vector_ns = 3)                                                              \
  OP(Gelu, .fuses = true, .vector_ns = 3)                                                          \
  OP(GeluTanh, .vector_ns = 3)                                                                     \
  OP(Swish, .fuses = true, .vector_ns = 2)                                                         \
  OP(Softplus, .since = 1, .fuses = true, .vector_ns = 5)                                          \
  OP(Mish, .since = 18, .fuses = true, .vector_ns = 5)                                             \
  OP(Elu, .since = 6, .alpha = {"alpha", 1}, .fuses = true, .vector_ns = 3)                        \
  OP(Floor, .since = 6, .folds = true)                                                             \
  OP(Ceil, .since = 6, .folds = true)                                                              \
  OP(Round, .since = 11, .folds = true)                                                            \
  OP(FakeQuantize, .alpha = {"scale", 1}, .beta = {"low", 0}, .fuses = true, .vector_ns = 0.5,     \
     .row_ns = kShortNs)

/// Functions of one float without a vector body.
/// - Celu: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
/// - Selu: beta * (x > 0 ? x : alpha * (exp(x) - 1))
/// - ThresholdedRelu: x > alpha ? x : 0
/// - Shrink: x < -alpha ? x + beta : x > alpha ? x - beta : 0
#define LAGOON_SCALAR_UNARY_OPS(OP)                                                                \
  OP(Sign, .since = 9, .folds = true, .row_ns = kShortNs)                                          \
  OP(Sin, .since = 7)                                                                              \
  OP(Cos, .since = 7)                                                                              \
  OP(Tan, .since = 7)                                                                              \
  OP(Asin, .since = 7)                                                                             \
  OP(Acos, .since = 7)                                                                             \
  OP(Atan, .since = 7)                                                                             \
  OP(Sinh, .since = 9)                                                                             \
  OP(Cosh, .since = 9)                                                                             \
  OP(Asinh, .since = 9)                                                                            \
  OP(Acosh, .since = 9)                                                                            \
  OP(Atanh, .since = 9)                                                                            \
  OP(Softsign, .since = 1, .row_ns = kShortNs)                                                     \
  OP(Celu, .since = 12, .alpha = {"alpha", 1})                                                     \
  OP(Selu, .since = 6, .alpha = {"alpha", 1.67326319217681884765625F},                             \
     .beta = {"gamma", 1.05070102214813232421875F})                                                \
  OP(ThresholdedRelu, .since = 10, .alpha = {"alpha", 1}, .row_ns = kShortNs)                      \
  OP(Shrink, .since = 9, .alpha = {"lambd", 0.5F}, .beta = {"bias", 0}, .row_ns = kShortNs)

/// Functions of flags and bits.
#define LAGOON_BIT_UNARY_OPS(OP)                                                                   \
  OP(Not, .since = 1, .takes_flags = true, .folds = true, .row_ns = kShortNs)                      \
  OP(BitwiseNot, .since = 18, .row_ns = kShortNs)

/// Tests of floats, with flags as results. IsInf: alpha and beta say whether negative and positive
/// infinity count.
#define LAGOON_TEST_UNARY_OPS(OP)                                                                  \
  OP(IsNaN, .since = 9, .row_ns = kShortNs)                                                        \
  OP(IsInf, .since = 10, .alpha = {"detect_negative", 1, 'i'},                                     \
     .beta = {"detect_positive", 1, 'i'}, .row_ns = kShortNs)

/// Functions of two numbers. Integers wrap around; an integer division by zero gives 0. Fp16 and
/// bf16 are computed in fp32. The CPU has a vector body for fp32.
#define LAGOON_VECTOR_BINARY_OPS(OP)                                                               \
  OP(Add, .since = 7, .folds = true)                                                               \
  OP(Sub, .since = 7, .folds = true)                                                               \
  OP(Mul, .since = 7, .folds = true)                                                               \
  OP(Div, .since = 7, .folds = true)                                                               \
  OP(Pow, .vector_ns = 15, .row_ns = {kLibraryNs, kLibraryNs, 70})                                 \
  OP(Min, .since = 6, .any_inputs = true, .folds = true)                                           \
  OP(Max, .since = 6, .any_inputs = true, .folds = true)

/// Functions of two numbers without a vector body.
/// - Mod: the result has the sign of b; Fmod: the sign of a
/// - PRelu: a < 0 ? a * b : a
#define LAGOON_SCALAR_BINARY_OPS(OP)                                                               \
  OP(Mod, .row_ns = {350, 1800, kLibraryNs})                                                       \
  OP(Fmod, .row_ns = {350, 1800, kLibraryNs})                                                      \
  OP(PRelu)

/// Functions of flags and bits.
#define LAGOON_BIT_BINARY_OPS(OP)                                                                  \
  OP(And, .since = 7, .takes_flags = true, .folds = true)                                          \
  OP(Or, .since = 7, .takes_flags = true, .folds = true)                                           \
  OP(Xor, .since = 7, .takes_flags = true, .folds = true)                                          \
  OP(BitwiseAnd, .since = 18)                                                                      \
  OP(BitwiseOr, .since = 18)                                                                       \
  OP(BitwiseXor, .since = 18)                                                                      \
  OP(ShiftLeft)                                                                                    \
  OP(ShiftRight)

/// Comparisons, with flags as results.
#define LAGOON_COMPARE_BINARY_OPS(OP)                                                              \
  OP(Equal)                                                                                        \
  OP(Less, .since = 7, .folds = true)                                                              \
  OP(LessOrEqual, .since = 12, .folds = true)                                                      \
  OP(Greater, .since = 7, .folds = true)                                                           \
  OP(GreaterOrEqual, .since = 12, .folds = true)

#define LAGOON_FUNCTION_NAME(name, ...) k##name,
enum class UnaryOp : std::uint8_t {
  LAGOON_VECTOR_UNARY_OPS(LAGOON_FUNCTION_NAME)
  LAGOON_SCALAR_UNARY_OPS(LAGOON_FUNCTION_NAME)
  LAGOON_BIT_UNARY_OPS(LAGOON_FUNCTION_NAME)
  LAGOON_TEST_UNARY_OPS(LAGOON_FUNCTION_NAME)
};

enum class BinaryOp : std::uint8_t {
  LAGOON_VECTOR_BINARY_OPS(LAGOON_FUNCTION_NAME)
  LAGOON_SCALAR_BINARY_OPS(LAGOON_FUNCTION_NAME)
  LAGOON_BIT_BINARY_OPS(LAGOON_FUNCTION_NAME)
  LAGOON_COMPARE_BINARY_OPS(LAGOON_FUNCTION_NAME)
};
#undef LAGOON_FUNCTION_NAME
// clang-format on

}  // namespace lagoon
