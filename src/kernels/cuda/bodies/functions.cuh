#pragma once

// The functions of elementwise ops (plan/elementwise_list.h), one switch for each kind of number.

#include "device/cuda/gpu/isa.cuh"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/elementwise/unary_functions.h"
#include "plan/elementwise_list.h"

namespace lagoon::cuda {

LAGOON_DEVICE float Infinity() { return __uint_as_float(0x7f800000u); }
LAGOON_DEVICE float NotANumber() { return __uint_as_float(0x7fc00000u); }

LAGOON_DEVICE float SigmoidOf(float x) { return functions::SigmoidOf(x, 0); }

struct FunctionParams {
  float alpha, beta;
};

#define LAGOON_APPLIED(name, ...) \
  case UnaryOp::k##name:          \
    return functions::name##Of(x, FunctionParams{alpha, beta});
#define LAGOON_ELSEWHERE(name, ...) case UnaryOp::k##name:

/// The functions that may follow another op (Epilogue). The host passes no others.
LAGOON_DEVICE_CALL float ApplyCommon(UnaryOp op, float x, float alpha, float beta) {
  switch (op) {
    LAGOON_VECTOR_UNARY_OPS(LAGOON_APPLIED)
    LAGOON_SCALAR_UNARY_OPS(LAGOON_ELSEWHERE)
    LAGOON_BIT_UNARY_OPS(LAGOON_ELSEWHERE)
    LAGOON_TEST_UNARY_OPS(LAGOON_ELSEWHERE)
    break;
  }
  return NotANumber();
}

/// Functions of floats with float results. The host passes no others.
LAGOON_DEVICE_CALL float ApplyUnary(UnaryOp op, float x, float alpha, float beta) {
  switch (op) {
    LAGOON_VECTOR_UNARY_OPS(LAGOON_ELSEWHERE)
    return ApplyCommon(op, x, alpha, beta);
    LAGOON_SCALAR_UNARY_OPS(LAGOON_APPLIED)
    LAGOON_BIT_UNARY_OPS(LAGOON_ELSEWHERE)
    LAGOON_TEST_UNARY_OPS(LAGOON_ELSEWHERE)
    break;
  }
  return NotANumber();
}
#undef LAGOON_APPLIED
#undef LAGOON_ELSEWHERE

LAGOON_DEVICE i64 UnaryInteger(UnaryOp op, ElementType type, i64 x) {
  const bool negative = type != ElementType::kU64 && x < 0;
  switch (op) {
    case UnaryOp::kRelu:
      return negative ? 0 : x;
    case UnaryOp::kAbs:
      return negative ? static_cast<i64>(-static_cast<u64>(x)) : x;
    case UnaryOp::kNeg:
      return static_cast<i64>(-static_cast<u64>(x));
    case UnaryOp::kSign:
      return negative ? -1 : x != 0 ? 1 : 0;
    case UnaryOp::kNot:
      return x == 0 ? 1 : 0;
    case UnaryOp::kBitwiseNot:
      return ~x;
    default:  // kCopy: the host passes no others
      return x;
  }
}

#define LAGOON_ELSEWHERE(name, ...) case BinaryOp::k##name:
/// The short functions, for float or double.
template <typename T>
LAGOON_DEVICE T Arithmetic(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMin:
      return a != a || a < b ? a : b;
    case BinaryOp::kMax:
      return a != a || a > b ? a : b;
    case BinaryOp::kPRelu:
      return a < 0 ? a * b : a;
    // No default: a function without code must not compile. ApplyBinary() computes these:
    case BinaryOp::kPow:
    case BinaryOp::kMod:
    case BinaryOp::kFmod:
      // Functions of flags and bits, and comparisons:
      LAGOON_BIT_BINARY_OPS(LAGOON_ELSEWHERE)
      LAGOON_COMPARE_BINARY_OPS(LAGOON_ELSEWHERE)
      break;
  }
  return static_cast<T>(NotANumber());
}

#undef LAGOON_ELSEWHERE

LAGOON_DEVICE_CALL float ApplyBinary(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::kPow:
      return powf(a, b);
    case BinaryOp::kMod: {
      const float rest = fmodf(a, b);
      if (rest == 0) return b < 0 ? -0.0f : 0.0f;
      return (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BinaryOp::kFmod:
      return fmodf(a, b);
    default:
      return Arithmetic(op, a, b);
  }
}

LAGOON_DEVICE u32 BitsOf(ElementType integer) {
  if (integer == ElementType::kBool) return 1;
  const ElementType first = integer <= ElementType::kI64 ? ElementType::kI8 : ElementType::kU8;
  return 8u << (static_cast<u32>(integer) - static_cast<u32>(first));
}

LAGOON_DEVICE bool IsCompare(BinaryOp op) { return op >= BinaryOp::kEqual; }

/// Comparisons of floats or integers.
template <typename T>
LAGOON_DEVICE bool Compared(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kLess:
      return a < b;
    case BinaryOp::kLessOrEqual:
      return a <= b;
    case BinaryOp::kGreater:
      return a > b;
    case BinaryOp::kGreaterOrEqual:
      return a >= b;
    default:
      return a == b;
  }
}

/// Division in 64 bits; narrower types keep the lower bits. `wide`: a and b are u64.
LAGOON_DEVICE i64 DividedBy(bool wide, i64 a, i64 b) {
  if (b == 0) return 0;
  if (wide) return static_cast<i64>(static_cast<u64>(a) / static_cast<u64>(b));
  return b == -1 ? static_cast<i64>(-static_cast<u64>(a)) : a / b;
}
LAGOON_DEVICE i64 RestOf(bool wide, i64 a, i64 b) {
  if (b == 0) return 0;
  if (wide) return static_cast<i64>(static_cast<u64>(a) % static_cast<u64>(b));
  return b == -1 ? 0 : a % b;
}
/// a to the power of b, by squaring. Negative powers give 0, except for 1 and -1.
LAGOON_DEVICE i64 PowerOf(bool wide, i64 a, i64 b) {
  if (!wide && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
  u64 result = 1;
  u64 base = static_cast<u64>(a);
  for (u64 rest = static_cast<u64>(b); rest != 0; rest /= 2) {
    if (rest % 2 != 0) result *= base;
    base *= base;
  }
  return static_cast<i64>(result);
}

LAGOON_DEVICE_CALL i64 ApplyInteger(BinaryOp op, ElementType type, i64 a, i64 b) {
  const bool wide = type == ElementType::kU64;
  const u64 ua = static_cast<u64>(a), ub = static_cast<u64>(b);
  const bool first_is_less = wide ? ua < ub : a < b;
  switch (op) {
    case BinaryOp::kAdd:
      return static_cast<i64>(ua + ub);
    case BinaryOp::kSub:
      return static_cast<i64>(ua - ub);
    case BinaryOp::kMul:
      return static_cast<i64>(ua * ub);
    case BinaryOp::kDiv:
      return DividedBy(wide, a, b);
    case BinaryOp::kPow:
      return PowerOf(wide, a, b);
    case BinaryOp::kMin:
      return first_is_less ? a : b;
    case BinaryOp::kMax:
      return first_is_less ? b : a;
    case BinaryOp::kMod: {
      const i64 rest = RestOf(wide, a, b);
      return !wide && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BinaryOp::kFmod:
      return RestOf(wide, a, b);
    case BinaryOp::kPRelu:
      return !wide && a < 0 ? static_cast<i64>(ua * ub) : a;
    case BinaryOp::kAnd:
    case BinaryOp::kBitwiseAnd:
      return a & b;
    case BinaryOp::kOr:
    case BinaryOp::kBitwiseOr:
      return a | b;
    case BinaryOp::kXor:
    case BinaryOp::kBitwiseXor:
      return a ^ b;
    case BinaryOp::kShiftLeft:
      return ub < BitsOf(type) ? static_cast<i64>(ua << ub) : 0;
    case BinaryOp::kShiftRight:
      if (ub >= BitsOf(type)) return !wide && a < 0 ? -1 : 0;
      return wide ? static_cast<i64>(ua >> ub) : a >> ub;
    case BinaryOp::kEqual:
    case BinaryOp::kLess:
    case BinaryOp::kLessOrEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterOrEqual:
      return (wide ? Compared(op, ua, ub) : Compared(op, a, b)) ? 1 : 0;
  }
  return 0;
}

}  // namespace lagoon::cuda
