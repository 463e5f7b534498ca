#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lines/arg_step.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include "kernels/lines/arg_step.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;
using Places = hn::RebindToSigned<D>;

/// A NaN is better than every number, as in numpy.
template <bool kLeast, bool kLast>
HWY_INLINE auto IsBetter(V value, V best) {
  const auto nan = hn::IsNaN(value);
  if constexpr (kLast) {
    return hn::Or(kLeast ? hn::Le(value, best) : hn::Ge(value, best), nan);
  } else {
    return hn::Or(kLeast ? hn::Lt(value, best) : hn::Gt(value, best),
                  hn::AndNot(hn::IsNaN(best), nan));
  }
}

template <bool kLeast, bool kLast>
void Step(const float* x, std::size_t columns, std::int32_t at, float* best, std::int32_t* index) {
  const Places p;
  const auto place = hn::Set(p, at);
  const size_t lanes = simd::Lanes();
  // `best` and `index` have room for whole vectors.
  const auto compare = [&](const auto& io, size_t c, auto columns_there) HWY_ATTR {
    const V value = io.Load(x + c), before = hn::LoadU(D(), best + c);
    const auto better = hn::And(columns_there, IsBetter<kLeast, kLast>(value, before));
    hn::StoreU(hn::IfThenElse(better, value, before), D(), best + c);
    const auto places = hn::IfThenElse(hn::RebindMask(p, better), place, hn::LoadU(p, index + c));
    hn::StoreU(places, p, index + c);
  };
  size_t c = 0;
  const auto all = hn::FirstN(D(), lanes);
  for (; c + lanes <= columns; c += lanes) compare(simd::Whole(), c, all);
  if (c < columns) compare(simd::Part(columns - c), c, hn::FirstN(D(), columns - c));
}

}  // namespace

ArgStep PickArgStep(bool least, bool last) {
  static constexpr ArgStep kSteps[2][2] = {{&Step<false, false>, &Step<false, true>},
                                           {&Step<true, false>, &Step<true, true>}};
  return kSteps[least][last];
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickArgStep);

}  // namespace

ArgStep FindArgStep(bool least, bool last) { return LAGOON_DISPATCH(PickArgStep)(least, last); }

}  // namespace lagoon
#endif  // HWY_ONCE
