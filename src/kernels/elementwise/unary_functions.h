#pragma once

// The functions of one float, defined once for the CPU (row_unary.cc: any float type) and for GPUs
// (kernels/cuda/bodies/functions.cuh: fp32). plan/elementwise_list.h says what they compute. The
// parameters `p` have the fields alpha and beta. A NaN stays a NaN, but FakeQuantizeOf makes it
// the lowest level, as ONNX Runtime does.

#if defined(__CUDACC__)
#define LAGOON_FUNCTION __device__ __forceinline__
#define LAGOON_LIBRARY  // the functions of <math.h>, overloaded for float
#else
#include <cmath>
#define LAGOON_FUNCTION inline
#define LAGOON_LIBRARY std
#endif

namespace lagoon::functions {

template <typename T>
LAGOON_FUNCTION T Limit(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}
/// b if it is greater, otherwise a.
template <typename T>
LAGOON_FUNCTION T Greater(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
LAGOON_FUNCTION T Less(T a, T b) {
  return b < a ? b : a;
}

// Functions that are a function of the C library.
#define LAGOON_IS(name, function)         \
  template <typename T, typename P>       \
  LAGOON_FUNCTION T name(T x, const P&) { \
    return LAGOON_LIBRARY::function(x);   \
  }
LAGOON_IS(TanhOf, tanh)
LAGOON_IS(ExpOf, exp)
LAGOON_IS(LogOf, log)
LAGOON_IS(SqrtOf, sqrt)
LAGOON_IS(AbsOf, fabs)
LAGOON_IS(ErfOf, erf)
LAGOON_IS(FloorOf, floor)
LAGOON_IS(CeilOf, ceil)
LAGOON_IS(RoundOf, nearbyint)
LAGOON_IS(SinOf, sin)
LAGOON_IS(CosOf, cos)
LAGOON_IS(TanOf, tan)
LAGOON_IS(AsinOf, asin)
LAGOON_IS(AcosOf, acos)
LAGOON_IS(AtanOf, atan)
LAGOON_IS(SinhOf, sinh)
LAGOON_IS(CoshOf, cosh)
LAGOON_IS(AsinhOf, asinh)
LAGOON_IS(AcoshOf, acosh)
LAGOON_IS(AtanhOf, atanh)
#undef LAGOON_IS

template <typename T, typename P>
LAGOON_FUNCTION T CopyOf(T x, const P&) {
  return x;
}
template <typename T, typename P>
LAGOON_FUNCTION T NegOf(T x, const P&) {
  return -x;
}
template <typename T, typename P>
LAGOON_FUNCTION T ReluOf(T x, const P&) {
  return x < 0 ? T{0} : x;
}
template <typename T, typename P>
LAGOON_FUNCTION T ClipOf(T x, const P& p) {
  return Limit(x, static_cast<T>(p.alpha), static_cast<T>(p.beta));
}
template <typename T, typename P>
LAGOON_FUNCTION T SigmoidOf(T x, const P&) {
  return 1 / (1 + LAGOON_LIBRARY::exp(-x));
}
template <typename T, typename P>
LAGOON_FUNCTION T LeakyReluOf(T x, const P& p) {
  return x < 0 ? static_cast<T>(p.alpha) * x : x;
}
template <typename T, typename P>
LAGOON_FUNCTION T SwishOf(T x, const P&) {
  return x / (1 + LAGOON_LIBRARY::exp(-x));
}
template <typename T, typename P>
LAGOON_FUNCTION T HardSwishOf(T x, const P&) {
  return x * Limit(x / 6 + T{0.5}, T{0}, T{1});
}
template <typename T, typename P>
LAGOON_FUNCTION T HardSigmoidOf(T x, const P& p) {
  return Limit(static_cast<T>(p.alpha) * x + static_cast<T>(p.beta), T{0}, T{1});
}
template <typename T, typename P>
LAGOON_FUNCTION T FakeQuantizeOf(T x, const P& p) {
  const T scale = static_cast<T>(p.alpha), low = static_cast<T>(p.beta);
  const T level = LAGOON_LIBRARY::nearbyint(x / scale);
  return (level >= low ? Less(level, low + 255) : low) * scale;
}
template <typename T, typename P>
LAGOON_FUNCTION T ReciprocalOf(T x, const P&) {
  return 1 / x;
}
template <typename T, typename P>
LAGOON_FUNCTION T GeluOf(T x, const P&) {
  constexpr T kHalfSqrt2 = static_cast<T>(0.70710678118654752440);
  return T{0.5} * x * (1 + LAGOON_LIBRARY::erf(x * kHalfSqrt2));
}
template <typename T, typename P>
LAGOON_FUNCTION T GeluTanhOf(T x, const P&) {
  constexpr T kTwoByPi = static_cast<T>(0.63661977236758134308);
  const T scale = LAGOON_LIBRARY::sqrt(kTwoByPi);
  const T cubic = x + static_cast<T>(0.044715) * x * x * x;
  return T{0.5} * x * (1 + LAGOON_LIBRARY::tanh(scale * cubic));
}
template <typename T, typename P>
LAGOON_FUNCTION T SoftplusOf(T x, const P&) {
  return Greater(x, T{0}) + LAGOON_LIBRARY::log1p(LAGOON_LIBRARY::exp(-LAGOON_LIBRARY::fabs(x)));
}
template <typename T, typename P>
LAGOON_FUNCTION T MishOf(T x, const P& p) {
  return x * LAGOON_LIBRARY::tanh(SoftplusOf(x, p));
}
template <typename T, typename P>
LAGOON_FUNCTION T SoftsignOf(T x, const P&) {
  return x / (1 + LAGOON_LIBRARY::fabs(x));
}
template <typename T, typename P>
LAGOON_FUNCTION T EluOf(T x, const P& p) {
  return x < 0 ? static_cast<T>(p.alpha) * LAGOON_LIBRARY::expm1(x) : x;
}
template <typename T, typename P>
LAGOON_FUNCTION T CeluOf(T x, const P& p) {
  const T alpha = static_cast<T>(p.alpha);
  return Greater(x, T{0}) + Less(alpha * LAGOON_LIBRARY::expm1(x / alpha), T{0});
}
template <typename T, typename P>
LAGOON_FUNCTION T SeluOf(T x, const P& p) {
  const T alpha = static_cast<T>(p.alpha);
  return static_cast<T>(p.beta) * (x > 0 ? x : alpha * LAGOON_LIBRARY::expm1(x));
}
template <typename T, typename P>
LAGOON_FUNCTION T ThresholdedReluOf(T x, const P& p) {
  return x <= static_cast<T>(p.alpha) ? T{0} : x;
}
template <typename T, typename P>
LAGOON_FUNCTION T ShrinkOf(T x, const P& p) {
  if (x < -p.alpha) return static_cast<T>(x + p.beta);
  if (x > p.alpha) return static_cast<T>(x - p.beta);
  return x == x ? T{0} : x;
}
template <typename T, typename P>
LAGOON_FUNCTION T SignOf(T x, const P&) {
  if (x > 0) return T{1};
  return x < 0 ? T{-1} : x == x ? T{0} : x;
}

}  // namespace lagoon::functions

#undef LAGOON_FUNCTION
#undef LAGOON_LIBRARY
