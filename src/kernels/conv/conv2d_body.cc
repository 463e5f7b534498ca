#include "kernels/conv/conv2d_body.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv2d_body.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/conv/conv2d_micro-inl.h"
#include "kernels/conv/gemv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {

// Measured on one core of a Xeon (Sapphire Rapids) at 2.2 GHz.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr double kFlopsPerUs = 130e3;
#elif HWY_TARGET == HWY_AVX2
constexpr double kFlopsPerUs = 70e3;
#else
constexpr double kFlopsPerUs = 2e3 * hwy::HWY_NAMESPACE::MaxLanes(simd::D());
#endif

const ConvTarget& DescribeConvTarget() {
  static const ConvTarget target = [] {
    ConvTarget t{};
    t.level = simd::kLevel;
    t.lanes = hwy::HWY_NAMESPACE::MaxLanes(simd::D());
    t.max_rows = conv::kMaxRows;
    t.flops_per_us = kFlopsPerUs;
    for (int listed = 0; listed < 2; ++listed) {
      for (int vectors = 0; vectors < conv::kMaxVectors; ++vectors) {
        std::ranges::copy(conv::kMultiply[listed][vectors], t.multiply[listed][vectors]);
      }
    }
    t.store = &conv::StoreRows;
    t.gemv = &conv::GemvBody<conv::Fp32Weights>;
    t.gemv_bf16 = &conv::GemvBody<conv::Bf16Weights>;
    return t;
  }();
  return target;
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lagoon {

HWY_EXPORT(DescribeConvTarget);

const ConvTarget& ChosenConvTarget() { return LAGOON_DISPATCH(DescribeConvTarget)(); }

}  // namespace lagoon
#endif
