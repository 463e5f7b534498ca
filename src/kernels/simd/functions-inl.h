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
LAGOON_VECTOR_FUNCTION V SafeExp(V x) {
  const V e = hn::Exp(D(), hn::Min(Const(104.0f), x));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}

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

LAGOON_VECTOR_FUNCTION V SafeTanh(V x) {
  return KeepNan(x, hn::Tanh(D(), simd::Clamp(x, Const(-20), Const(20))));
}

LAGOON_VECTOR_FUNCTION V SigmoidOf(V x) {
  return hn::Div(Const(1), hn::Add(Const(1), SafeExp(hn::Neg(x))));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_FUNCTIONS_INL_H_
