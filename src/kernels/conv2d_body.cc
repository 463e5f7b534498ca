#include "kernels/conv2d_body.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_body.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/conv2d_block-inl.h"
#include "kernels/gemv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {

ConvTarget DescribeConvTarget() {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  constexpr double kFlopsPerUs = 130e3;
#elif HWY_TARGET == HWY_AVX2
  constexpr double kFlopsPerUs = 70e3;
#else
  constexpr double kFlopsPerUs = 2e3 * hwy::HWY_NAMESPACE::MaxLanes(simd::D());
#endif
  return {&conv::Conv2dBody, &conv::GemvBody, hwy::HWY_NAMESPACE::MaxLanes(simd::D()),
          conv::kMaxRows, kFlopsPerUs};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lagoon {

HWY_EXPORT(DescribeConvTarget);

ConvTarget ChosenConvTarget() { return HWY_DYNAMIC_DISPATCH(DescribeConvTarget)(); }

}  // namespace lagoon
#endif
