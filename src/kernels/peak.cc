// foreach_target.h compiles the first half once per instruction set; the factories follow once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <cstddef>

#include "hwy/highway.h"
#include "kernels/peak.h"

#ifndef LAGOON_KERNELS_PEAK_ARGS_
#define LAGOON_KERNELS_PEAK_ARGS_
namespace lagoon {
namespace {

/// Vectors that are summed up side by side, so that no instruction waits for the one before.
constexpr std::size_t kChains = 12;
constexpr std::size_t kPeakPage = 4096;

struct PeakArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t rounds = 0;  // of multiply-adds, 1024 times kChains vectors each
  std::size_t bytes = 0, passes = 0;
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using PeakD = hn::ScalableTag<float>;
using PeakV = hn::Vec<PeakD>;

/// The sum of a few vectors, so that no compiler leaves their computation out.
template <class... Vs>
HWY_INLINE float SumOfAll(PeakV first, Vs... others) {
  PeakV sum = first;
  ((sum = hn::Add(sum, others)), ...);
  return hn::GetLane(hn::SumOfLanes(PeakD(), sum));
}

bool PeakFlopsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const PeakArgs*>(raw);
  const PeakD d;
  // Only known at run time, and such that nothing overflows.
  const PeakV scale = hn::Set(d, 1.0F / static_cast<float>(args.rounds + 1));
  const PeakV shift = hn::Set(d, static_cast<float>(block));
  // Chains that start alike would be computed once.
  const auto start = [&](int chain) { return hn::Set(d, static_cast<float>(chain)); };
  PeakV a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5);
  PeakV a6 = start(6), a7 = start(7), a8 = start(8), a9 = start(9), a10 = start(10);
  PeakV a11 = start(11);
  for (size_t round = 0; round < args.rounds; ++round) {
    if (ctx.ShouldLeave()) return false;
    for (size_t i = 0; i < 1024; ++i) {
      a0 = hn::MulAdd(a0, scale, shift);
      a1 = hn::MulAdd(a1, scale, shift);
      a2 = hn::MulAdd(a2, scale, shift);
      a3 = hn::MulAdd(a3, scale, shift);
      a4 = hn::MulAdd(a4, scale, shift);
      a5 = hn::MulAdd(a5, scale, shift);
      a6 = hn::MulAdd(a6, scale, shift);
      a7 = hn::MulAdd(a7, scale, shift);
      a8 = hn::MulAdd(a8, scale, shift);
      a9 = hn::MulAdd(a9, scale, shift);
      a10 = hn::MulAdd(a10, scale, shift);
      a11 = hn::MulAdd(a11, scale, shift);
    }
  }
  args.y[block] = SumOfAll(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11);
  return true;
}

bool PeakReadBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const PeakArgs*>(raw);
  const PeakD d;
  const size_t lanes = hn::Lanes(d), count = args.bytes / sizeof(float);
  const float* const x = args.x + block * count;
  PeakV a = hn::Zero(d), b = a, c = a, e = a;
  for (size_t pass = 0; pass < args.passes; ++pass) {
    for (size_t page = 0; page < count; page += kPeakPage / sizeof(float)) {
      if (page % (16 * kPeakPage) == 0 && ctx.ShouldLeave()) return false;
      const float* const end = x + page + kPeakPage / sizeof(float);
      for (const float* at = x + page; at < end; at += 4 * lanes) {
        a = hn::Add(a, hn::LoadU(d, at));
        b = hn::Add(b, hn::LoadU(d, at + lanes));
        c = hn::Add(c, hn::LoadU(d, at + 2 * lanes));
        e = hn::Add(e, hn::LoadU(d, at + 3 * lanes));
      }
    }
  }
  args.y[block] = SumOfAll(a, b, c, e);
  return true;
}

Body PickPeakFlops() { return &PeakFlopsBody; }
Body PickPeakRead() { return &PeakReadBody; }
size_t PeakLanes() { return hn::Lanes(PeakD()); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickPeakFlops);
HWY_EXPORT(PickPeakRead);
HWY_EXPORT(PeakLanes);

Kernel PeakKernel(const char* name, Body body, std::uint32_t blocks, const PeakArgs& args) {
  Kernel kernel;
  kernel.name = name;
  kernel.body = body;
  kernel.blocks = blocks;
  kernel.args = ArgsImage(args);
  kernel.outputs = {offsetof(PeakArgs, y)};
  return kernel;
}

}  // namespace

Kernel MakePeakFlops(std::uint32_t blocks) {
  PeakArgs args;
  args.rounds = 64;
  Kernel kernel = PeakKernel("peak_flops", LAGOON_DISPATCH(PickPeakFlops)(), blocks, args);
  kernel.flops = 2.0 * 1024 * kChains * static_cast<double>(LAGOON_DISPATCH(PeakLanes)()) *
                 static_cast<double>(args.rounds) * blocks;
  return kernel;
}

Kernel MakePeakRead(const PeakReadSpec& spec) {
  LAGOON_CHECK(spec.bytes % kPeakPage == 0);
  PeakArgs args;
  args.bytes = spec.bytes;
  args.passes = spec.passes;
  Kernel kernel = PeakKernel("peak_read", LAGOON_DISPATCH(PickPeakRead)(), spec.blocks, args);
  kernel.inputs = {offsetof(PeakArgs, x)};
  kernel.bytes_moved = static_cast<double>(spec.bytes * spec.passes) * spec.blocks;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
