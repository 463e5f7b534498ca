// Row functions of two operands.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise/row_functions.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/elementwise/vector_rows.h"

namespace lagoon {
namespace {

using rows::Binary;
using rows::Flag;

/// Integers are computed unsigned, because C++ defines only unsigned overflow.
template <typename T>
using Wraps = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

template <typename T>
T AddOf(T a, T b) {
  return static_cast<T>(static_cast<Wraps<T>>(a) + static_cast<Wraps<T>>(b));
}
template <typename T>
T SubOf(T a, T b) {
  return static_cast<T>(static_cast<Wraps<T>>(a) - static_cast<Wraps<T>>(b));
}
template <typename T>
T MulOf(T a, T b) {
  return static_cast<T>(static_cast<Wraps<T>>(a) * static_cast<Wraps<T>>(b));
}
template <typename T>
T DivOf(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return SubOf<T>(0, a);
  }
  return static_cast<T>(a / b);
}
/// Integers by squaring; a negative power gives 0, except for 1 and -1.
template <typename T>
T PowOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(a, b);
  } else {
    if (std::is_signed_v<T> && b < 0) {
      const bool odd = b % 2 != 0;
      return a == 1 ? T{1} : a == static_cast<T>(-1) ? static_cast<T>(odd ? -1 : 1) : T{0};
    }
    T result = 1;
    for (; b != 0; b = static_cast<T>(b / 2)) {
      if (b % 2 != 0) result = MulOf<T>(result, a);
      a = MulOf<T>(a, a);
    }
    return result;
  }
}
/// The result of a NaN is NaN, as in numpy.
template <typename T>
T MinOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b < a ? b : a;
}
template <typename T>
T MaxOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? b : a;
}
template <typename T>
T FmodOf(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    return static_cast<T>(a % b);
  }
}
template <typename T>
T ModOf(T a, T b) {
  const T rest = FmodOf<T>(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    if (rest == 0) return std::copysign(rest, b);
  }
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}
template <typename T>
T PReluOf(T a, T b) {
  return a < 0 ? MulOf<T>(a, b) : a;
}
template <typename T>
T BitAndOf(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
T BitOrOf(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
T BitXorOf(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <typename T>
bool InWidth(T b) {
  return b >= 0 && b < static_cast<T>(std::numeric_limits<std::make_unsigned_t<T>>::digits);
}
template <typename T>
T ShiftLeftOf(T a, T b) {
  return InWidth(b) ? static_cast<T>(static_cast<std::uint64_t>(a) << b) : T{0};
}
/// By the width or more: all bits are those of the sign.
template <typename T>
T ShiftRightOf(T a, T b) {
  return InWidth(b) ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0);
}
template <typename T>
bool EqualOf(T a, T b) {
  return a == b;
}
template <typename T>
bool LessOf(T a, T b) {
  return a < b;
}
template <typename T>
bool LessOrEqualOf(T a, T b) {
  return a <= b;
}
template <typename T>
bool GreaterOf(T a, T b) {
  return a > b;
}
template <typename T>
bool GreaterOrEqualOf(T a, T b) {
  return a >= b;
}
bool AndOf(bool a, bool b) { return a && b; }
bool OrOf(bool a, bool b) { return a || b; }
bool XorOf(bool a, bool b) { return a != b; }

template <typename T>
RowFunction BitRow(BinaryOp op) {
  switch (op) {
    case BinaryOp::kBitwiseAnd:
      return &Binary<T, T, &BitAndOf<T>>;
    case BinaryOp::kBitwiseOr:
      return &Binary<T, T, &BitOrOf<T>>;
    case BinaryOp::kBitwiseXor:
      return &Binary<T, T, &BitXorOf<T>>;
    case BinaryOp::kShiftLeft:
      return &Binary<T, T, &ShiftLeftOf<T>>;
    case BinaryOp::kShiftRight:
      return &Binary<T, T, &ShiftRightOf<T>>;
    default:
      return nullptr;
  }
}

template <typename T>
RowFunction NumberRow(BinaryOp op) {
  using W = Wide<T>;
  switch (op) {
    case BinaryOp::kAdd:
      return &Binary<T, T, &AddOf<W>>;
    case BinaryOp::kSub:
      return &Binary<T, T, &SubOf<W>>;
    case BinaryOp::kMul:
      return &Binary<T, T, &MulOf<W>>;
    case BinaryOp::kDiv:
      return &Binary<T, T, &DivOf<W>>;
    case BinaryOp::kPow:
      return &Binary<T, T, &PowOf<W>>;
    case BinaryOp::kMin:
      return &Binary<T, T, &MinOf<W>>;
    case BinaryOp::kMax:
      return &Binary<T, T, &MaxOf<W>>;
    case BinaryOp::kMod:
      return &Binary<T, T, &ModOf<W>>;
    case BinaryOp::kFmod:
      return &Binary<T, T, &FmodOf<W>>;
    case BinaryOp::kPRelu:
      return &Binary<T, T, &PReluOf<W>>;
    case BinaryOp::kEqual:
      return &Binary<T, Flag, &EqualOf<W>>;
    case BinaryOp::kLess:
      return &Binary<T, Flag, &LessOf<W>>;
    case BinaryOp::kLessOrEqual:
      return &Binary<T, Flag, &LessOrEqualOf<W>>;
    case BinaryOp::kGreater:
      return &Binary<T, Flag, &GreaterOf<W>>;
    case BinaryOp::kGreaterOrEqual:
      return &Binary<T, Flag, &GreaterOrEqualOf<W>>;
    default:
      if constexpr (std::is_integral_v<T>) return BitRow<T>(op);
      return nullptr;
  }
}

RowFunction BoolRow(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAnd:
    case BinaryOp::kMin:
      return &Binary<Flag, Flag, &AndOf>;
    case BinaryOp::kOr:
    case BinaryOp::kMax:
      return &Binary<Flag, Flag, &OrOf>;
    case BinaryOp::kXor:
      return &Binary<Flag, Flag, &XorOf>;
    case BinaryOp::kEqual:
      return &Binary<Flag, Flag, &EqualOf<bool>>;
    default:
      return nullptr;
  }
}

}  // namespace

RowFunction FindPlainBinaryRow(BinaryOp op, DataType type) {
  if (type == DataType::kString) return nullptr;
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) -> RowFunction {
    if constexpr (std::is_same_v<T, bool>) {
      return BoolRow(op);
    } else {
      return NumberRow<T>(op);
    }
  });
}

RowFunction FindBinaryRow(BinaryOp op, DataType type) {
  const RowFunction vectors = type == DataType::kFloat32 ? FindVectorCompareRow(op) : nullptr;
  return vectors != nullptr ? vectors : FindPlainBinaryRow(op, type);
}

}  // namespace lagoon
