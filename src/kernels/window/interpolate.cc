#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window/interpolate.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"
#include "kernels/window/interpolate.h"

#ifndef LAGOON_KERNELS_INTERPOLATE_ARGS_
#define LAGOON_KERNELS_INTERPOLATE_ARGS_
namespace lagoon {
namespace {

/// Long rows are cut: a task is a piece of y[o, i, :], or of y[o, :] where `inner` is 1.
struct InterpolateArgs {
  const float* x = nullptr;
  const std::int32_t* indices = nullptr;
  const float* weights = nullptr;
  float* y = nullptr;
  std::size_t in = 1, out = 1, inner = 1, taps = 2;
  std::size_t pieces = 1, tasks = 1, blocks = 1;
  float fill = 0;
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

/// Computes elements [part.begin, part.end) of one row.
HWY_INLINE void Blend(const InterpolateArgs& args, size_t row, Range part) {
  const size_t outer = row / args.out, i = row % args.out;
  const std::int32_t* const indices = args.indices + i * args.taps;
  const float* const weights = args.weights + i * args.taps;
  float* const y = args.y + row * args.inner;
  if (indices[0] < 0) {
    std::fill(y + part.begin, y + part.end, args.fill);
    return;
  }
  const float* const x = args.x + outer * args.in * args.inner;
  size_t at = part.begin;
  for (; at + simd::Lanes() <= part.end; at += simd::Lanes()) {
    V sum = hn::Zero(D());
    for (size_t t = 0; t < args.taps; ++t) {
      const float* const from = x + static_cast<size_t>(indices[t]) * args.inner + at;
      sum = hn::MulAdd(hn::Set(D(), weights[t]), hn::LoadU(D(), from), sum);
    }
    hn::StoreU(sum, D(), y + at);
  }
  for (; at < part.end; ++at) {
    float sum = 0;
    for (size_t t = 0; t < args.taps; ++t) {
      sum += weights[t] * x[static_cast<size_t>(indices[t]) * args.inner + at];
    }
    y[at] = sum;
  }
}

using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;

/// Adds what a tap gives to neighbouring pixels. Pixels outside have negative indices.
HWY_INLINE V AddTap(const float* x, VI indices, V weights, V sum) {
  return hn::MulAdd(weights, hn::GatherIndex(D(), x, hn::Max(indices, hn::Zero(DI()))), sum);
}

/// The vector of pixels y[o, at, 0] and behind, where x is that of `o`.
HWY_INLINE V GatherTaps(const InterpolateArgs& args, const float* x, size_t at) {
  const std::int32_t* const indices = args.indices + at * args.taps;
  const float* const weights = args.weights + at * args.taps;
  VI i0, i1, i2, i3;
  V w0, w1, w2, w3, sum = hn::Zero(D());
  if (args.taps == 2) {
    hn::LoadInterleaved2(DI(), indices, i0, i1);
    hn::LoadInterleaved2(D(), weights, w0, w1);
    sum = AddTap(x, i1, w1, AddTap(x, i0, w0, sum));
  } else {
    hn::LoadInterleaved4(DI(), indices, i0, i1, i2, i3);
    hn::LoadInterleaved4(D(), weights, w0, w1, w2, w3);
    sum = AddTap(x, i1, w1, AddTap(x, i0, w0, sum));
    sum = AddTap(x, i3, w3, AddTap(x, i2, w2, sum));
  }
  const auto outside = hn::RebindMask(D(), hn::Lt(i0, hn::Zero(DI())));
  return hn::IfThenElse(outside, hn::Set(D(), args.fill), sum);
}

/// Computes y[o, part, 0] where `inner` is 1: a vector holds pixels beside each other.
HWY_INLINE void BlendPixels(const InterpolateArgs& args, size_t o, Range part) {
  size_t at = part.begin;
  if (args.taps == 2 || args.taps == 4) {
    for (; at + simd::Lanes() <= part.end; at += simd::Lanes()) {
      hn::StoreU(GatherTaps(args, args.x + o * args.in, at), D(), args.y + o * args.out + at);
    }
  }
  for (; at < part.end; ++at) Blend(args, o * args.out + at, {0, 1});
}

bool InterpolateBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const InterpolateArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const size_t row = task / args.pieces, piece = task % args.pieces;
    if (args.inner == 1) {
      BlendPixels(args, row, Share(args.out, args.pieces, piece));
    } else {
      Blend(args, row, Share(args.inner, args.pieces, piece));
    }
  }
  return true;
}

}  // namespace

Body PickInterpolateBody() { return &InterpolateBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickInterpolateBody);

constexpr char kName[] = "interpolate";

// Measured on a Xeon at 2 GHz, one thread.
constexpr double kNsPerRow = 12;
constexpr double kNsPerTapElement = 0.4;
constexpr double kNsPerGather = 0.8;
constexpr std::size_t kPiece = 4096;

}  // namespace

Result<Kernel> MakeInterpolate(const InterpolateSpec& spec) {
  LAGOON_RETURN_IF_ERROR(
      CheckElements(kName, "x", {{"outer", spec.outer}, {"in", spec.in}, {"inner", spec.inner}}));
  LAGOON_ASSIGN_OR_RETURN(
      const std::size_t count,
      CheckElements(kName, "y", {{"outer", spec.outer}, {"out", spec.out}, {"inner", spec.inner}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "weights", {{"out", spec.out}, {"taps", spec.taps}}));
  InterpolateArgs args;
  args.in = spec.in;
  args.out = spec.out;
  args.inner = spec.inner;
  args.taps = spec.taps;
  args.fill = spec.fill;
  const bool pixels = spec.inner == 1;
  args.pieces = CeilDivide(pixels ? spec.out : spec.inner, kPiece);
  args.tasks = spec.outer * (pixels ? 1 : spec.out) * args.pieces;
  const double products = static_cast<double>(count) * static_cast<double>(spec.taps);
  const double ns_per_product = pixels ? kNsPerGather : kNsPerTapElement;
  args.blocks = BlocksFor(ns_per_product * products + kNsPerRow * static_cast<double>(args.tasks),
                          args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickInterpolateBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(InterpolateArgs, x), offsetof(InterpolateArgs, indices),
                   offsetof(InterpolateArgs, weights)};
  kernel.outputs = {offsetof(InterpolateArgs, y)};
  kernel.flops = 2 * products;
  kernel.bytes_moved = 2 * sizeof(float) * static_cast<double>(count);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
