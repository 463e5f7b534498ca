// Functions of vectors that are correct for every number, once per Highway target. Include after
// foreach_target.h.

#if defined(LAGOON_KERNELS_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_FUNCTIONS_INL_H_
#undef LAGOON_KERNELS_FUNCTIONS_INL_H_
#else
#define LAGOON_KERNELS_FUNCTIONS_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "kernels/simd/simd-inl.h"

/// Not inlined under a sanitizer, whose checks would make the compiler take minutes for every use.
#undef LAGOON_VECTOR_FUNCTION
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAGOON_VECTOR_FUNCTION HWY_MAYBE_UNUSED HWY_NOINLINE
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAGOON_VECTOR_FUNCTION HWY_MAYBE_UNUSED HWY_NOINLINE
#else
#define LAGOON_VECTOR_FUNCTION HWY_INLINE
#endif
#else
#define LAGOON_VECTOR_FUNCTION HWY_INLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE V Const(float value) { return hn::Set(D(), value); }

/// Highway's functions are correct on a limited range. These wrappers define the result outside
/// that range and for NaN.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
/// 2^n times a polynomial, fitted to a relative error of 2e-9, of the rest. An instruction
/// multiplies by 2^n, to zero and infinity as well, so this takes a third of the instructions.
LAGOON_VECTOR_FUNCTION V SafeExp(V x) {
  constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  const V limited = hn::Min(Const(104.0f), hn::Max(Const(-104.0f), x));  // NaN, if x is
  const V n = hn::Round(hn::Mul(limited, Const(1.44269504f)));
  const V rest = hn::NegMulAdd(n, Const(kLn2Low), hn::NegMulAdd(n, Const(kLn2High), limited));
  V y = Const(0.00138368353f);
  y = hn::MulAdd(y, rest, Const(0.00837482419f));
  y = hn::MulAdd(y, rest, Const(0.0416682251f));
  y = hn::MulAdd(y, rest, Const(0.166664198f));
  y = hn::MulAdd(y, rest, Const(0.499999911f));
  y = hn::MulAdd(y, rest, Const(1));
  y = hn::MulAdd(y, rest, Const(1));
  return V{_mm512_scalef_ps(y.raw, n.raw)};
}
#else
LAGOON_VECTOR_FUNCTION V SafeExp(V x) {
  const V e = hn::Exp(D(), hn::Min(Const(104.0f), x));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}
#endif

LAGOON_VECTOR_FUNCTION V SafeLog(V x) {
  const V infinity = hn::Inf(D());
  const V finite =
      hn::IfThenElse(hn::And(hn::Gt(x, hn::Zero(D())), hn::Lt(x, infinity)), x, Const(1));
  V y = hn::Log(D(), finite);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(D())), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  return hn::IfThenElse(hn::Or(hn::Lt(x, hn::Zero(D())), hn::IsNaN(x)), hn::NaN(D()), y);
}

HWY_INLINE V KeepNan(V x, V y) { return hn::IfThenElse(hn::IsNaN(x), x, y); }

/// exp(x), but exp(-87) below -87, where results are below the normal numbers: making or
/// multiplying such a number takes some CPUs fifty times as long. For what is added to 1.
HWY_INLINE V NormalExp(V x) {
  const V limited = hn::Max(Const(-87), x);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return SafeExp(limited);  // NaN, if x is
#else
  return KeepNan(x, SafeExp(limited));
#endif
}

/// An addend of a softmax: zero below -87, which masks of -100 and less make.
HWY_INLINE V ExpOrZero(V x) { return hn::IfThenZeroElse(hn::Lt(x, Const(-87)), NormalExp(x)); }

LAGOON_VECTOR_FUNCTION V SafeTanh(V x) {
  return KeepNan(x, hn::Tanh(D(), simd::Clamp(x, Const(-20), Const(20))));
}

LAGOON_VECTOR_FUNCTION V SigmoidOf(V x) {
  return hn::Div(Const(1), hn::Add(Const(1), NormalExp(hn::Neg(x))));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_FUNCTIONS_INL_H_
