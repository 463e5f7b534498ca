// Evaluators of comparisons, of flags, and of arithmetic that shapes need besides + - * /.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "graph/fold/elements.h"
#include "graph/fold/evaluate.h"

namespace lagoon {
namespace {

/// f(a, b) for each element of the broadcast inputs, in elements of R.
template <typename T, typename R, typename F>
ConstantBytes MapPairs(const OpContext& context, std::size_t output, F f) {
  const Dims& out = context.output(output).dims;
  const ConstantBytes a = BroadcastBytes(context, 0, out);
  const ConstantBytes b = BroadcastBytes(context, 1, out);
  auto bytes = NewElements<R>(ElementCount(out));
  const std::int64_t count = ElementCount(out);
  if (count == 0) return bytes;
  const auto* x = Elements<T>(a);
  std::transform(x, x + count, Elements<T>(b), Elements<R>(*bytes), f);
  return bytes;
}

template <typename T>
Result<ConstantBytes> Compare(const OpContext& context, std::size_t output) {
  const std::string_view op = context.node().op;
  using S = Stored<T>;
  const auto map = [&](auto f) -> Result<ConstantBytes> {
    return MapPairs<T, bool>(context, output, f);
  };
  if constexpr (std::is_same_v<T, bool>) {
    if (op == "And") return map([](S a, S b) { return a != 0 && b != 0; });
    if (op == "Or") return map([](S a, S b) { return a != 0 || b != 0; });
    if (op == "Xor") return map([](S a, S b) { return (a != 0) != (b != 0); });
    if (op == "Equal") return map([](S a, S b) { return (a != 0) == (b != 0); });
  } else {
    if (op == "Equal") return map([](S a, S b) { return a == b; });
    if (op == "Less") return map([](S a, S b) { return a < b; });
    if (op == "LessOrEqual") return map([](S a, S b) { return a <= b; });
    if (op == "Greater") return map([](S a, S b) { return a > b; });
    if (op == "GreaterOrEqual") return map([](S a, S b) { return a >= b; });
  }
  return context.Unimplemented("on these constants");
}

/// The remainder of a / b with the sign of b; with `truncated` the sign of a. b is not 0.
template <typename T>
T Remainder(T a, T b, bool truncated) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if constexpr (std::is_unsigned_v<T>) return static_cast<T>(a % b);
    if (b == static_cast<T>(-1)) return 0;  // the quotient may overflow
    const T rest = static_cast<T>(a % b);
    const bool other_sign = rest != 0 && (rest ^ b) >> (sizeof(T) * 8 - 1) != 0;
    return !truncated && other_sign ? static_cast<T>(rest + b) : rest;
  }
}

template <typename T>
bool HasZeroElement(const Constant& constant) {
  const auto* begin = Elements<T>(constant.bytes);
  const auto* end = begin + ElementCount(constant.dims);
  return std::find(begin, end, Stored<T>{0}) != end;
}

/// base ^ exponent, wrapping around. The exponent is not negative.
template <typename T>
T WholePower(T base, std::int64_t exponent) {
  std::uint64_t result = 1, factor = static_cast<std::uint64_t>(static_cast<std::int64_t>(base));
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if ((exponent & 1) != 0) result *= factor;
  }
  return static_cast<T>(result);
}

/// base ^ exponent of element `i` of both.
template <typename T>
T Power(const OpContext& context, T base, const ConstantBytes& exponents, std::size_t i) {
  const DataType type = context.input(1).type;
  const double exponent = ElementAsDouble(type, exponents->data(), i);
  if constexpr (std::is_integral_v<T>) {
    constexpr double kMost = 1 << 20;
    const bool whole = exponent >= 0 && exponent < kMost && exponent == std::floor(exponent);
    if (whole) return WholePower(base, static_cast<std::int64_t>(exponent));
  }
  return ConvertElement<T>(std::pow(static_cast<double>(base), exponent));
}

}  // namespace

Result<ConstantBytes> EvaluateCompare(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  return WithElements(context, context.input(0).type, [&]<typename T>(std::type_identity<T>) {
    return Compare<T>(context, output);
  });
}

Result<ConstantBytes> EvaluateNot(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const std::int64_t count = ElementCount(context.output(output).dims);
  auto bytes = NewElements<bool>(count);
  const auto* x = Elements<bool>(context.constant(0)->bytes);
  std::transform(x, x + count, Elements<bool>(*bytes), [](auto flag) { return flag == 0; });
  return bytes;
}

Result<ConstantBytes> EvaluateMod(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const bool truncated = context.node().Int("fmod", 0) != 0;
  return WithElements(context, context.input(0).type,
                      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
                        if constexpr (std::is_same_v<T, bool>) {
                          return context.Unimplemented("of flags");
                        } else {
                          if (std::is_floating_point_v<T> && !truncated) {
                            return context.Unimplemented("of fractions without fmod");
                          }
                          if (std::is_integral_v<T> && HasZeroElement<T>(*context.constant(1))) {
                            return context.Invalid("divides a constant integer by zero");
                          }
                          return MapPairs<T, T>(context, output, [&](T a, T b) {
                            return Remainder(a, b, truncated);
                          });
                        }
                      });
}

Result<ConstantBytes> EvaluatePow(const OpContext& context, std::size_t output) {
  if (IsFloat(context.input(0).type) && context.input(0).type == context.input(1).type) {
    return EvaluateBinary(context, output);
  }
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Dims& out = context.output(output).dims;
  const ConstantBytes a = BroadcastBytes(context, 0, out);
  const ConstantBytes b = BroadcastBytes(context, 1, out);
  return WithElements(context, context.input(0).type,
                      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
                        auto bytes = NewElements<T>(ElementCount(out));
                        for (std::size_t i = 0; i < bytes->size() / sizeof(T); ++i) {
                          Elements<T>(*bytes)[i] = Power(context, Elements<T>(a)[i], b, i);
                        }
                        return bytes;
                      });
}

Result<ConstantBytes> EvaluateClip(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Dims& out = context.output(output).dims;
  return WithElements(context, context.input(0).type,
                      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
                        using S = Stored<T>;
                        using Limits = std::numeric_limits<S>;
                        S low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
                        S high = Limits::has_infinity ? Limits::infinity() : Limits::max();
                        if (context.has_attribute("min"))
                          low = ConvertElement<S>(context.node().Float("min", 0));
                        if (context.has_attribute("max"))
                          high = ConvertElement<S>(context.node().Float("max", 0));
                        if (context.has_input(1)) low = *Elements<T>(context.constant(1)->bytes);
                        if (context.has_input(2)) high = *Elements<T>(context.constant(2)->bytes);
                        auto bytes = NewElements<T>(ElementCount(out));
                        const S* x = Elements<T>(context.constant(0)->bytes);
                        std::transform(x, x + ElementCount(out), Elements<T>(*bytes),
                                       [&](S v) { return std::min(std::max(v, low), high); });
                        return bytes;
                      });
}

}  // namespace lagoon
