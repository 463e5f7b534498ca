// Row functions of one operand.

#include <cmath>

#include "kernels/elementwise/row_functions.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/elementwise/unary_functions.h"

namespace lagoon {
namespace {

using rows::Flag;
using rows::Unary;
using Params = RowParams;

// For integers, computed unsigned: C++ defines only unsigned overflow.
template <typename T>
T NegOf(T x, const Params&) {
  return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
}
template <typename T>
T AbsOf(T x, const Params& p) {
  if constexpr (std::is_unsigned_v<T>) return x;
  return x < 0 ? NegOf(x, p) : x;
}
template <typename T>
T SignOf(T x, const Params&) {
  return x > 0 ? T{1} : x < 0 ? static_cast<T>(-1) : T{0};
}
/// x + by. Wraps around if `by` is whole, otherwise saturates.
template <typename T>
T Shifted(T x, double by) {
  if (std::nearbyint(by) == by && std::abs(by) < 0x1p62) {
    return static_cast<T>(static_cast<std::uint64_t>(x) +
                          static_cast<std::uint64_t>(static_cast<std::int64_t>(by)));
  }
  return ConvertElement<T>(static_cast<double>(x) + by);
}
template <typename T>
T ShrinkOf(T x, const Params& p) {
  if (static_cast<double>(x) < -p.alpha) return Shifted(x, p.beta);
  if (static_cast<double>(x) > p.alpha) return Shifted(x, -p.beta);
  return 0;
}
template <typename T>
T BitwiseNotOf(T x, const Params&) {
  return static_cast<T>(~x);
}

bool NotOf(bool x, const Params&) { return !x; }

// Tests of floats.
template <typename T>
bool IsNaNOf(T x, const Params&) {
  return std::isnan(x);
}
template <typename T>
bool IsInfOf(T x, const Params& p) {
  return std::isinf(x) && (x < 0 ? p.alpha : p.beta) != 0;
}

/// T: float, double or a half type.
template <typename T>
RowFunction FloatRow(UnaryOp op) {
  using W = Wide<T>;
#define LAGOON_NUMBER_CASE(name, ...) \
  case UnaryOp::k##name:              \
    return &Unary<T, T, &functions::name##Of<W, Params>>;
#define LAGOON_FLAG_CASE(name, ...) \
  case UnaryOp::k##name:            \
    return &Unary<T, Flag, &name##Of<W>>;
#define LAGOON_BIT_CASE(name, ...) case UnaryOp::k##name:
  switch (op) {
    LAGOON_VECTOR_UNARY_OPS(LAGOON_NUMBER_CASE)
    LAGOON_SCALAR_UNARY_OPS(LAGOON_NUMBER_CASE)
    LAGOON_TEST_UNARY_OPS(LAGOON_FLAG_CASE)
    LAGOON_BIT_UNARY_OPS(LAGOON_BIT_CASE)
    break;
  }
#undef LAGOON_NUMBER_CASE
#undef LAGOON_FLAG_CASE
#undef LAGOON_BIT_CASE
  return nullptr;  // not defined on floats
}

template <typename T>
RowFunction IntegerRow(UnaryOp op) {
  switch (op) {
    case UnaryOp::kRelu:
      return &Unary<T, T, &functions::ReluOf<T, Params>>;
    case UnaryOp::kAbs:
      return &Unary<T, T, &AbsOf<T>>;
    case UnaryOp::kNeg:
      return &Unary<T, T, &NegOf<T>>;
    case UnaryOp::kSign:
      return &Unary<T, T, &SignOf<T>>;
    case UnaryOp::kCopy:
      return &Unary<T, T, &functions::CopyOf<T, Params>>;
    case UnaryOp::kShrink:
      return &Unary<T, T, &ShrinkOf<T>>;
    case UnaryOp::kBitwiseNot:
      return &Unary<T, T, &BitwiseNotOf<T>>;
    default:
      return nullptr;  // not defined on integers
  }
}

}  // namespace

RowFunction FindUnaryRow(UnaryOp op, DataType type) {
  if (type == DataType::kString) return nullptr;
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) -> RowFunction {
    if constexpr (std::is_same_v<T, bool>) {
      if (op == UnaryOp::kNot) return &Unary<Flag, Flag, &NotOf>;
      if (op == UnaryOp::kCopy) return &Unary<Flag, Flag, &functions::CopyOf<bool, Params>>;
      return nullptr;
    } else if constexpr (std::is_integral_v<T>) {
      return IntegerRow<T>(op);
    } else {
      return FloatRow<T>(op);
    }
  });
}

}  // namespace lagoon
