#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lines/normalize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cmath>

#include "kernels/lines/normalize.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_NORMALIZE_ARGS_
#define LAGOON_KERNELS_NORMALIZE_ARGS_
namespace lagoon {
namespace {

struct NormalizeArgs {
  const float* x = nullptr;
  const float* scale = nullptr;  // null: ones
  const float* bias = nullptr;   // null: zeros
  float* y = nullptr;
  std::size_t rows = 1, row = 1, period = 1, per_row = 1, inner = 1, blocks = 1;
  float epsilon = 0;
  bool center = true;
};

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

HWY_INLINE float Mean(const float* x, size_t count) {
  const size_t lanes = simd::Lanes();
  V a = hn::Zero(D()), b = hn::Zero(D());
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Add(a, hn::LoadU(D(), x + i));
    b = hn::Add(b, hn::LoadU(D(), x + i + lanes));
  }
  float sum = hn::GetLane(hn::SumOfLanes(D(), hn::Add(a, b)));
  for (; i < count; ++i) sum += x[i];
  return sum / static_cast<float>(count);
}

HWY_INLINE float MeanSquare(const float* x, float mean, size_t count) {
  const size_t lanes = simd::Lanes();
  const V shift = hn::Set(D(), mean);
  V a = hn::Zero(D()), b = hn::Zero(D());
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V low = hn::Sub(hn::LoadU(D(), x + i), shift);
    const V high = hn::Sub(hn::LoadU(D(), x + i + lanes), shift);
    a = hn::MulAdd(low, low, a);
    b = hn::MulAdd(high, high, b);
  }
  float sum = hn::GetLane(hn::SumOfLanes(D(), hn::Add(a, b)));
  for (; i < count; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum / static_cast<float>(count);
}

/// y = (x - mean) * factor * scale[j] + bias[j]
HWY_INLINE void WriteScaled(const float* x, float mean, float factor, const float* scale,
                            const float* bias, size_t count, float* y) {
  const size_t lanes = simd::Lanes();
  const V shift = hn::Set(D(), mean), by = hn::Set(D(), factor);
  const auto write = [&](const auto& io, size_t i) HWY_ATTR {
    V v = hn::Mul(hn::Sub(io.Load(x + i), shift), by);
    if (scale != nullptr) v = hn::Mul(v, io.Load(scale + i));
    if (bias != nullptr) v = hn::Add(v, io.Load(bias + i));
    io.Store(v, y + i);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) write(simd::Whole(), i);
  if (i < count) write(simd::Part(count - i), i);
}

/// y = x * factor + shift
HWY_INLINE void WriteAffine(const float* x, float factor, float shift, size_t count, float* y) {
  const size_t lanes = simd::Lanes();
  const V by = hn::Set(D(), factor), add = hn::Set(D(), shift);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(D(), x + i), by, add), D(), y + i);
  }
  for (; i < count; ++i) y[i] = x[i] * factor + shift;
}

HWY_INLINE void Row(const NormalizeArgs& args, size_t row) {
  const float* const x = args.x + row * args.row;
  float* const y = args.y + row * args.row;
  const float mean = args.center ? Mean(x, args.row) : 0;
  const float factor = 1 / std::sqrt(MeanSquare(x, mean, args.row) + args.epsilon);
  const size_t first = row % args.period * args.per_row;
  if (args.inner == 1) {
    const float* const scale = args.scale == nullptr ? nullptr : args.scale + first;
    const float* const bias = args.bias == nullptr ? nullptr : args.bias + first;
    return WriteScaled(x, mean, factor, scale, bias, args.row, y);
  }
  for (size_t channel = 0; channel < args.per_row; ++channel) {
    const size_t at = channel * args.inner;
    const float by = args.scale == nullptr ? factor : factor * args.scale[first + channel];
    const float bias = args.bias == nullptr ? 0 : args.bias[first + channel];
    WriteAffine(x + at, by, bias - mean * by, args.inner, y + at);
  }
}

bool NormalizeBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const NormalizeArgs*>(raw);
  const Range rows = Share(args.rows, args.blocks, block);
  for (size_t row = rows.begin; row < rows.end; ++row) Row(args, row);
  return true;
}

}  // namespace

Body PickNormalizeBody() { return &NormalizeBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickNormalizeBody);

constexpr char kName[] = "normalize";

// Measured on a Xeon at 2 GHz, one thread: three passes over a row in the first-level cache.
constexpr double kNsPerElement = 0.5;
constexpr double kNsPerRow = 40;

}  // namespace

Result<Kernel> MakeNormalize(const NormalizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count,
                          CheckElements(kName, "x", {{"rows", spec.rows}, {"row", spec.row}}));
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"period", spec.period}, {"inner", spec.inner}}));
  if (spec.row > kMaxNormalizeRow || spec.row % spec.inner != 0) {
    return Invalid(kName, fmt::format("row {} of channels of {}; the most is {}", spec.row,
                                      spec.inner, kMaxNormalizeRow));
  }
  NormalizeArgs args;
  args.rows = spec.rows;
  args.row = spec.row;
  args.period = spec.period;
  args.per_row = spec.row / spec.inner;
  args.inner = spec.inner;
  args.epsilon = spec.epsilon;
  args.center = spec.center;
  const double bytes = 2 * sizeof(float) * static_cast<double>(count);
  args.blocks = BlocksFor(std::max(MoveNs(bytes), kNsPerElement * static_cast<double>(count)) +
                              kNsPerRow * static_cast<double>(spec.rows),
                          spec.rows);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickNormalizeBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(NormalizeArgs, x)};
  if (spec.scale) kernel.inputs.push_back(offsetof(NormalizeArgs, scale));
  if (spec.bias) kernel.inputs.push_back(offsetof(NormalizeArgs, bias));
  kernel.outputs = {offsetof(NormalizeArgs, y)};
  kernel.flops = 6 * static_cast<double>(count);
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
