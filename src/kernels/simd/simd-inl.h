// Vector helpers of the ops' bodies, once per Highway target. Include after foreach_target.h.

#if defined(LAGOON_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_SIMD_INL_H_
#undef LAGOON_KERNELS_SIMD_INL_H_
#else
#define LAGOON_KERNELS_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu_level.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace simd {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// The lowest level that runs these bodies.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr CpuLevel kLevel = CpuLevel::kAvx512;
#elif HWY_TARGET == HWY_AVX2
inline constexpr CpuLevel kLevel = CpuLevel::kAvx2;
#else
inline constexpr CpuLevel kLevel = CpuLevel::kPortable;
#endif

HWY_INLINE size_t Lanes() { return hn::Lanes(D()); }

/// Moves whole vectors.
struct Whole {
  static HWY_INLINE V Load(const float* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void Store(V v, float* p) { hn::StoreU(v, D(), p); }
};

/// Moves the first `count` < Lanes() lanes and touches no other memory. The other lanes load as
/// zero.
class Part {
 public:
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  explicit HWY_INLINE Part(size_t count) : mask_(hn::FirstN(D(), count)) {}
  HWY_INLINE V Load(const float* p) const { return hn::MaskedLoad(mask_, D(), p); }
  HWY_INLINE void Store(V v, float* p) const { hn::BlendedStore(v, mask_, D(), p); }

 private:
  hn::Mask<D> mask_;
#else
  // On other targets a masked access may touch the whole vector.
  explicit HWY_INLINE Part(size_t count) : count_(count) {}
  HWY_INLINE V Load(const float* p) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
    std::memcpy(lanes, p, count_ * sizeof(float));
    return hn::Load(D(), lanes);
  }
  HWY_INLINE void Store(V v, float* p) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(v, D(), lanes);
    std::memcpy(p, lanes, count_ * sizeof(float));
  }

 private:
  size_t count_;
#endif
};

/// Limits to [low, high]. A NaN stays a NaN: Min and Max return the second operand on x86, but the
/// number on scalar targets.
HWY_INLINE V Clamp(V v, V low, V high) {
  const V limited = hn::Min(high, hn::Max(low, v));
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::IsNaN(v), v, limited);
#else
  return limited;
#endif
}

/// v where it is at least `low`, otherwise `low`, which a NaN becomes too.
HWY_INLINE V AtLeast(V v, V low) { return hn::IfThenElse(hn::Ge(v, low), v, low); }

/// The greater and the smaller number; NaN if one of the two is NaN. Max and Min alone return the
/// second operand on x86 if one is NaN, and the number on scalar targets.
HWY_INLINE V MaxOrNan(V a, V b) {
  const V max = hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b));
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::IsNaN(b), b, max);
#else
  return max;
#endif
}
HWY_INLINE V MinOrNan(V a, V b) {
  const V min = hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b));
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::IsNaN(b), b, min);
#else
  return min;
#endif
}
/// The same over all lanes, in all lanes.
HWY_INLINE V MaxOfLanesOrNan(V v) {
  return hn::AllFalse(D(), hn::IsNaN(v)) ? hn::MaxOfLanes(D(), v) : hn::NaN(D());
}
HWY_INLINE V MinOfLanesOrNan(V v) {
  return hn::AllFalse(D(), hn::IsNaN(v)) ? hn::MinOfLanes(D(), v) : hn::NaN(D());
}

HWY_INLINE void Copy(const float* from, size_t count, float* to) {
  const size_t lanes = Lanes();
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) Whole::Store(Whole::Load(from + i), to + i);
  if (i < count) {
    const Part part(count - i);
    part.Store(part.Load(from + i), to + i);
  }
}

HWY_INLINE void Fill(float value, size_t count, float* to) {
  const size_t lanes = Lanes();
  const V v = hn::Set(D(), value);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) Whole::Store(v, to + i);
  if (i < count) Part(count - i).Store(v, to + i);
}

}  // namespace simd
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_SIMD_INL_H_
