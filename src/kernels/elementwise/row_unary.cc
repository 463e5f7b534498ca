// Row functions of one operand.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/elementwise/row_functions.h"
#include "kernels/elementwise/row_loops.h"

namespace lagoon {
namespace {

using rows::Flag;
using rows::Unary;
using Params = RowParams;

template <typename T>
T Limit(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;  // a NaN stays a NaN
}

template <typename T>
T ReluOf(T x, const Params&) {
  return x < 0 ? T{0} : x;
}
template <typename T>
T ClipOf(T x, const Params& p) {
  return Limit(x, static_cast<T>(p.alpha), static_cast<T>(p.beta));
}
template <typename T>
T SigmoidOf(T x, const Params&) {
  return 1 / (1 + std::exp(-x));
}
template <typename T>
T LeakyReluOf(T x, const Params& p) {
  return x < 0 ? static_cast<T>(p.alpha) * x : x;
}
template <typename T>
T SwishOf(T x, const Params&) {
  return x / (1 + std::exp(-x));
}
template <typename T>
T HardSwishOf(T x, const Params&) {
  return x * Limit(x / 6 + T{0.5}, T{0}, T{1});
}
template <typename T>
T HardSigmoidOf(T x, const Params& p) {
  return Limit(static_cast<T>(p.alpha) * x + static_cast<T>(p.beta), T{0}, T{1});
}
template <typename T>
T ReciprocalOf(T x, const Params&) {
  return 1 / x;
}
template <typename T>
T GeluOf(T x, const Params&) {
  return T{0.5} * x * (1 + std::erf(x * std::numbers::sqrt2_v<T> / 2));
}
template <typename T>
T GeluTanhOf(T x, const Params&) {
  const T scale = std::sqrt(2 * std::numbers::inv_pi_v<T>);
  return T{0.5} * x * (1 + std::tanh(scale * (x + T{0.044715} * x * x * x)));
}
template <typename T>
T SoftplusOf(T x, const Params&) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}
template <typename T>
T MishOf(T x, const Params& p) {
  return x * std::tanh(SoftplusOf(x, p));
}
template <typename T>
T SoftsignOf(T x, const Params&) {
  return x / (1 + std::abs(x));
}
template <typename T>
T EluOf(T x, const Params& p) {
  return x < 0 ? static_cast<T>(p.alpha) * std::expm1(x) : x;
}
template <typename T>
T CeluOf(T x, const Params& p) {
  const T alpha = static_cast<T>(p.alpha);
  return std::max(x, T{0}) + std::min(alpha * std::expm1(x / alpha), T{0});
}
template <typename T>
T SeluOf(T x, const Params& p) {
  return static_cast<T>(p.beta) * (x > 0 ? x : static_cast<T>(p.alpha) * std::expm1(x));
}
template <typename T>
T ThresholdedReluOf(T x, const Params& p) {
  return x <= static_cast<T>(p.alpha) ? T{0} : x;  // a NaN stays a NaN
}
/// x + by. Integers wrap around if `by` is whole, otherwise they saturate.
template <typename T>
T Shifted(T x, double by) {
  if constexpr (std::is_integral_v<T>) {
    if (std::nearbyint(by) == by && std::abs(by) < 0x1p62) {
      return static_cast<T>(static_cast<std::uint64_t>(x) +
                            static_cast<std::uint64_t>(static_cast<std::int64_t>(by)));
    }
  }
  return ConvertElement<T>(static_cast<double>(x) + by);
}
template <typename T>
T ShrinkOf(T x, const Params& p) {
  if (static_cast<double>(x) < -p.alpha) return Shifted(x, p.beta);
  if (static_cast<double>(x) > p.alpha) return Shifted(x, -p.beta);
  return x == x ? T{0} : x;  // a NaN stays a NaN
}
template <typename T>
T SignOf(T x, const Params&) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x)) return x;
  }
  return x > 0 ? T{1} : x < 0 ? static_cast<T>(-1) : T{0};
}
template <typename T>
T AbsOf(T x, const Params&) {
  if constexpr (std::is_floating_point_v<T>) return std::abs(x);
  if constexpr (std::is_unsigned_v<T>) return x;
  return x < 0 ? static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x)) : x;
}
template <typename T>
T NegOf(T x, const Params&) {
  if constexpr (std::is_floating_point_v<T>) return -x;
  return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
}
template <typename T>
T CopyOf(T x, const Params&) {
  return x;
}
template <typename T>
T BitwiseNotOf(T x, const Params&) {
  return static_cast<T>(~x);
}
bool NotOf(bool x, const Params&) { return !x; }
template <typename T>
bool IsNanOf(T x, const Params&) {
  return std::isnan(x);
}
template <typename T>
bool IsInfOf(T x, const Params& p) {
  return std::isinf(x) && (x < 0 ? p.alpha : p.beta) != 0;
}

#define LAGOON_LIBRARY(name, function) \
  template <typename T>                \
  T name(T x, const Params&) {         \
    return std::function(x);           \
  }
LAGOON_LIBRARY(TanhOf, tanh)
LAGOON_LIBRARY(ExpOf, exp)
LAGOON_LIBRARY(LogOf, log)
LAGOON_LIBRARY(SqrtOf, sqrt)
LAGOON_LIBRARY(ErfOf, erf)
LAGOON_LIBRARY(FloorOf, floor)
LAGOON_LIBRARY(CeilOf, ceil)
LAGOON_LIBRARY(RoundOf, nearbyint)
LAGOON_LIBRARY(SinOf, sin)
LAGOON_LIBRARY(CosOf, cos)
LAGOON_LIBRARY(TanOf, tan)
LAGOON_LIBRARY(AsinOf, asin)
LAGOON_LIBRARY(AcosOf, acos)
LAGOON_LIBRARY(AtanOf, atan)
LAGOON_LIBRARY(SinhOf, sinh)
LAGOON_LIBRARY(CoshOf, cosh)
LAGOON_LIBRARY(AsinhOf, asinh)
LAGOON_LIBRARY(AcoshOf, acosh)
LAGOON_LIBRARY(AtanhOf, atanh)
#undef LAGOON_LIBRARY

/// T: float, double or a half type.
template <typename T>
RowFunction FloatRow(UnaryOp op) {
  using W = Wide<T>;
#define LAGOON_NUMBER_CASE(name) \
  case UnaryOp::k##name:         \
    return &Unary<T, T, &name##Of<W>>;
#define LAGOON_FLAG_CASE(name) \
  case UnaryOp::k##name:       \
    return &Unary<T, Flag, &name##Of<W>>;
#define LAGOON_BIT_CASE(name) case UnaryOp::k##name:
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
      return &Unary<T, T, &ReluOf<T>>;
    case UnaryOp::kAbs:
      return &Unary<T, T, &AbsOf<T>>;
    case UnaryOp::kNeg:
      return &Unary<T, T, &NegOf<T>>;
    case UnaryOp::kSign:
      return &Unary<T, T, &SignOf<T>>;
    case UnaryOp::kCopy:
      return &Unary<T, T, &CopyOf<T>>;
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
      if (op == UnaryOp::kCopy) return &Unary<Flag, Flag, &CopyOf<bool>>;
      return nullptr;
    } else if constexpr (std::is_integral_v<T>) {
      return IntegerRow<T>(op);
    } else {
      return FloatRow<T>(op);
    }
  });
}

}  // namespace lagoon
