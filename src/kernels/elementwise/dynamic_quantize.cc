#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/dynamic_quantize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/elementwise/dynamic_quantize.h"
#include "kernels/simd/simd-inl.h"

#ifndef LAGOON_KERNELS_EXTREMES_
#define LAGOON_KERNELS_EXTREMES_
namespace lagoon {
namespace {

struct Extreme {
  float least = 0, greatest = 0;
};
using FindExtremes = Extreme (*)(const float* x, std::size_t count);

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

/// The extremes of x and 0. Several vectors at once, so that no instruction waits for the one
/// before.
Extreme ExtremesOf(const float* x, size_t count) {
  const size_t lanes = simd::Lanes();
  V low0 = hn::Zero(D()), low1 = low0, high0 = low0, high1 = low0;
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V v0 = hn::LoadU(D(), x + i), v1 = hn::LoadU(D(), x + i + lanes);
    low0 = hn::Min(v0, low0);
    high0 = hn::Max(v0, high0);
    low1 = hn::Min(v1, low1);
    high1 = hn::Max(v1, high1);
  }
  while (i < count) {
    const size_t left = std::min(lanes, count - i);
    const V v = left == lanes ? simd::Whole::Load(x + i) : simd::Part(left).Load(x + i);
    low0 = hn::Min(v, low0);
    high0 = hn::Max(v, high0);
    i += left;
  }
  return {hn::GetLane(hn::MinOfLanes(D(), hn::Min(low0, low1))),
          hn::GetLane(hn::MaxOfLanes(D(), hn::Max(high0, high1)))};
}

}  // namespace

FindExtremes PickFindExtremes() { return &ExtremesOf; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"
#include "kernels/elementwise/row_functions.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickFindExtremes);

constexpr char kExtremes[] = "extremes", kDynamicQuantize[] = "dynamic_quantize";

// Measured on an EPYC with AVX2, one thread.
constexpr double kExtremesNs = 0.1, kQuantizeNs = 0.5;
/// Blocks begin at multiples of this, so that no two write to one cache line.
constexpr std::size_t kGrain = 64;

struct ExtremesArgs {
  const float* x = nullptr;
  Extreme* y = nullptr;
  FindExtremes find = nullptr;
  std::size_t count = 1, blocks = 1;
};

struct DynamicQuantizeArgs {
  const float* x = nullptr;
  const Extreme* extremes = nullptr;
  std::byte* y = nullptr;
  float* scale = nullptr;
  std::uint8_t* zero = nullptr;
  FindExtremes find = nullptr;
  RowFunction row = nullptr;
  std::size_t count = 1, parts = 0, blocks = 1;
};

/// The elements of block `block`.
template <typename Args>
Range ElementsOf(const Args& args, std::uint32_t block) {
  const Range grains = Share(CeilDivide(args.count, kGrain), args.blocks, block);
  return {grains.begin * kGrain, std::min(args.count, grains.end * kGrain)};
}

bool ExtremesBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ExtremesArgs*>(raw);
  const Range range = ElementsOf(args, block);
  args.y[block] = args.find(args.x + range.begin, range.size());
  return true;
}

Extreme WholeExtreme(const DynamicQuantizeArgs& args) {
  if (args.parts == 0) return args.find(args.x, args.count);
  Extreme whole;
  for (std::size_t i = 0; i < args.parts; ++i) {
    whole.least = std::min(whole.least, args.extremes[i].least);
    whole.greatest = std::max(whole.greatest, args.extremes[i].greatest);
  }
  return whole;
}

/// Every block computes the scale and the zero point; the first one writes them.
bool DynamicQuantizeBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const DynamicQuantizeArgs*>(raw);
  const Extreme whole = WholeExtreme(args);
  // Without any element but 0 any scale is right; ONNX Runtime has 1.
  const float span = (whole.greatest - whole.least) / 255;
  const float scale = span == 0 ? 1 : span;
  const float level = std::nearbyint(-(whole.least / scale));
  const auto zero = static_cast<std::uint8_t>(level > 0 ? std::min(level, 255.0F) : 0);
  const Range range = ElementsOf(args, block);
  const RowOperand operands[] = {{reinterpret_cast<const std::byte*>(args.x + range.begin), 1},
                                 {reinterpret_cast<const std::byte*>(&scale), 0},
                                 {reinterpret_cast<const std::byte*>(&zero), 0}};
  args.row(operands, args.y + range.begin, range.size(), {});
  if (block != 0) return true;
  *args.scale = scale;
  *args.zero = zero;
  return true;
}

std::size_t BlocksOf(std::size_t count, double ns_per_element) {
  return BlocksFor(ns_per_element * static_cast<double>(count), CeilDivide(count, kGrain));
}

}  // namespace

std::size_t ExtremesParts(const ExtremesSpec& spec) { return BlocksOf(spec.count, kExtremesNs); }

Result<Kernel> MakeExtremes(const ExtremesSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(kExtremes, {{"count", spec.count}}));
  ExtremesArgs args;
  args.count = spec.count;
  args.blocks = ExtremesParts(spec);
  args.find = LAGOON_DISPATCH(PickFindExtremes)();
  Kernel kernel;
  kernel.name = kExtremes;
  kernel.body = &ExtremesBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ExtremesArgs, x)};
  kernel.outputs = {offsetof(ExtremesArgs, y)};
  kernel.flops = 2 * static_cast<double>(spec.count);
  kernel.bytes_moved = sizeof(float) * static_cast<double>(spec.count);
  return kernel;
}

Result<Kernel> MakeDynamicQuantize(const DynamicQuantizeSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(kDynamicQuantize, {{"count", spec.count}}));
  DynamicQuantizeArgs args;
  args.count = spec.count;
  args.parts = spec.parts;
  args.blocks = spec.parts == 0 ? 1 : BlocksOf(spec.count, kQuantizeNs);
  args.find = LAGOON_DISPATCH(PickFindExtremes)();
  args.row = FindQuantizeRow(DataType::kUInt8);
  using Args = DynamicQuantizeArgs;
  Kernel kernel;
  kernel.name = kDynamicQuantize;
  kernel.body = &DynamicQuantizeBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(Args, x)};
  if (spec.parts != 0) kernel.inputs.push_back(offsetof(Args, extremes));
  kernel.outputs = {offsetof(Args, y), offsetof(Args, scale), offsetof(Args, zero)};
  kernel.flops = 4 * static_cast<double>(spec.count);
  kernel.bytes_moved = (sizeof(float) + 1) * static_cast<double>(spec.count);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
