// foreach_target.h compiles the first half once per instruction set; the factory follows once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lines/channel_affine.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/activation.h"
#include "kernels/lines/channel_affine.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_CHANNEL_AFFINE_ARGS_
#define LAGOON_KERNELS_CHANNEL_AFFINE_ARGS_
namespace lagoon {
namespace {

/// Blocks are shares of the output's grains. All sizes are in elements.
struct ChannelAffineArgs {
  const float* scale = nullptr;
  const float* shift = nullptr;
  const float* x[kMaxAffineParts] = {};
  float* y = nullptr;
  std::size_t ends[kMaxAffineParts] = {};  // end of each part in a row
  std::size_t parts = 0;
  std::size_t row = 1, count = 1, blocks = 1;
  Limits limits;
  Finish finish;
};

/// Blocks begin at multiples of this: a cache line.
constexpr std::size_t kAffineGrain = 16;

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

/// The channels of one pixel and one part.
struct AffineRun {
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  float* y = nullptr;
  Limits limits;
};

template <class Io>
HWY_INLINE void AffineVector(const Io& io, const AffineRun& run, size_t c) {
  const V low = hn::Set(D(), run.limits.low), high = hn::Set(D(), run.limits.high);
  const V v = hn::MulAdd(io.Load(run.x + c), io.Load(run.scale + c), io.Load(run.shift + c));
  io.Store(simd::Clamp(v, low, high), run.y + c);
}

HWY_INLINE void AffineChannels(const AffineRun& run, size_t count) {
  const size_t lanes = simd::Lanes();
  size_t c = 0;
  for (; c + lanes <= count; c += lanes) AffineVector(simd::Whole(), run, c);
  if (c < count) AffineVector(simd::Part(count - c), run, c);
}

bool ChannelAffineBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ChannelAffineArgs*>(raw);
  const Range grains = Share(CeilDivide(args.count, kAffineGrain), args.blocks, block);
  const size_t first = grains.begin * kAffineGrain;
  const size_t end = std::min(args.count, grains.end * kAffineGrain);
  size_t row = first / args.row, column = first % args.row;
  size_t part = 0;
  while (args.ends[part] <= column) ++part;
  for (size_t at = first; at < end;) {
    const size_t begin = part == 0 ? 0 : args.ends[part - 1];
    const size_t channels = args.ends[part] - begin;
    const size_t count = std::min(args.ends[part] - column, end - at);
    AffineRun run;
    run.x = args.x[part] + row * channels + (column - begin);
    run.scale = args.scale + column;
    run.shift = args.shift + column;
    run.y = args.y + at;
    run.limits = args.limits;
    AffineChannels(run, count);
    at += count;
    column += count;
    if (++part < args.parts) continue;
    part = 0;
    column = 0;
    ++row;
  }
  if (args.finish.row != nullptr) args.finish(args.y + first, nullptr, end - first);
  return true;
}

}  // namespace

Body PickChannelAffineBody() { return &ChannelAffineBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickChannelAffineBody);

constexpr char kName[] = "channel_affine";

// Measured on a Xeon at 2 GHz, one thread: time to begin a part in a row.
constexpr double kNsPerRun = 6;

Status SetParts(const ChannelAffineSpec& spec, ChannelAffineArgs& args) {
  args.parts = spec.channels.size();
  if (args.parts == 0 || args.parts > kMaxAffineParts) {
    return Invalid(kName, fmt::format("{} parts, must be 1 to {}", args.parts, kMaxAffineParts));
  }
  args.row = 0;
  for (std::size_t i = 0; i < args.parts; ++i) {
    LAGOON_RETURN_IF_ERROR(CheckElements(kName, fmt::format("part {}", i),
                                         {{"rows", spec.rows}, {"channels", spec.channels[i]}}));
    args.row += spec.channels[i];
    args.ends[i] = args.row;
  }
  LAGOON_ASSIGN_OR_RETURN(args.count,
                          CheckElements(kName, "y", {{"rows", spec.rows}, {"channels", args.row}}));
  return {};
}

}  // namespace

Result<Kernel> MakeChannelAffine(const ChannelAffineSpec& spec) {
  ChannelAffineArgs args;
  LAGOON_RETURN_IF_ERROR(SetParts(spec, args));
  if (spec.epilogue.residual) return Invalid(kName, "epilogue.residual is not supported");
  LAGOON_ASSIGN_OR_RETURN(args.limits, LimitsOf(kName, spec.epilogue));
  LAGOON_ASSIGN_OR_RETURN(args.finish, FinishOf(kName, spec.epilogue));
  const double bytes = 2 * sizeof(float) * static_cast<double>(args.count);
  const double ns = MoveNs(bytes) + FinishNs(spec.epilogue) * static_cast<double>(args.count) +
                    kNsPerRun * static_cast<double>(spec.rows * args.parts);
  args.blocks = BlocksFor(ns, CeilDivide(args.count, kAffineGrain));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickChannelAffineBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ChannelAffineArgs, scale), offsetof(ChannelAffineArgs, shift)};
  for (std::size_t i = 0; i < args.parts; ++i) {
    kernel.inputs.push_back(
        static_cast<std::uint32_t>(offsetof(ChannelAffineArgs, x) + i * sizeof(float*)));
  }
  kernel.outputs = {offsetof(ChannelAffineArgs, y)};
  kernel.flops = 2 * static_cast<double>(args.count);
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
