#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window/sample.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cmath>

#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"
#include "kernels/tiling.h"
#include "kernels/window/sample.h"

#ifndef LAGOON_KERNELS_SAMPLE_ARGS_
#define LAGOON_KERNELS_SAMPLE_ARGS_
namespace lagoon {
namespace {

/// A task is a bin.
struct RoiAlignArgs {
  const float* x = nullptr;
  const float* regions = nullptr;
  const std::int64_t* images = nullptr;
  float* y = nullptr;
  std::size_t batch = 1, height = 1, width = 1, channels = 1;
  std::size_t out_height = 1, out_width = 1, samples = 0;
  std::size_t tasks = 1, blocks = 1;
  float scale = 1;
  bool half_pixel = true, maximum = false;
};

/// A task is a place.
struct GridSampleArgs {
  const float* x = nullptr;
  const float* grid = nullptr;
  float* y = nullptr;
  std::size_t channels = 1, places = 1, axes = 2;
  std::size_t in[3] = {1, 1, 1};
  std::size_t tasks = 1, blocks = 1;
  SampleMode mode = SampleMode::kLinear;
  SamplePadding padding = SamplePadding::kZeros;
  bool align_corners = false;
};

/// Two neighbours along an axis, with their weights.
struct Neighbours {
  std::size_t low = 0, high = 0;
  float at_low = 0, at_high = 0;
};

/// A place up to a pixel outside of the image counts as its edge; other places weigh nothing.
inline Neighbours NeighboursOf(float at, std::size_t size) {
  if (!(at >= -1.0f && at <= static_cast<float>(size))) return {};
  at = std::max(at, 0.0f);
  const auto low = static_cast<std::size_t>(at);
  if (low + 1 >= size) return {size - 1, size - 1, 1, 0};
  const float fraction = at - static_cast<float>(low);
  return {low, low + 1, 1 - fraction, fraction};
}

/// The bins of a region along one axis.
struct RegionAxis {
  float start = 0, bin = 0;
  std::size_t samples = 0;

  RegionAxis(const RoiAlignArgs& args, float from, float to, std::size_t out) {
    const float offset = args.half_pixel ? 0.5f : 0.0f;
    start = from * args.scale - offset;
    float length = to * args.scale - offset - start;
    if (!args.half_pixel) length = std::max(length, 1.0f);
    bin = length / static_cast<float>(out);
    samples = args.samples;
    if (samples > 0) return;
    // A NaN takes neither branch.
    if (bin > 0) {
      samples =
          static_cast<std::size_t>(std::min(std::ceil(bin), static_cast<float>(kMostRoiSamples)));
    }
  }
  float Place(std::size_t index, std::size_t sample) const {
    return start + static_cast<float>(index) * bin +
           (static_cast<float>(sample) + 0.5f) * bin / static_cast<float>(samples);
  }
};

/// The pixels along one axis that a place is computed from. An index of -1 weighs nothing.
struct AxisTaps {
  std::size_t count = 1;
  std::int64_t index[4] = {};
  float weight[4] = {1, 0, 0, 0};
};

inline float Reflect(float at, float low, float high) {
  const float range = high - low;
  if (range <= 0) return low;
  const float beyond = at < low ? low - at : at - high;
  if (beyond <= 0) return at;
  const float rest = std::fmod(beyond, range);
  const bool even = std::fmod(std::floor(beyond / range), 2.0f) == 0;
  return even == (at < low) ? low + rest : high - rest;
}

class AxisSampler {
 public:
  AxisSampler(const GridSampleArgs& args, std::size_t axis)
      : args_(args), size_(static_cast<float>(args.in[axis])) {
    low_ = args.align_corners ? 0.0f : -0.5f;
    high_ = args.align_corners ? size_ - 1 : size_ - 0.5f;
  }

  AxisTaps At(float place) const {
    float at = args_.align_corners ? (place + 1) / 2 * (size_ - 1) : ((place + 1) * size_ - 1) / 2;
    // Farther outside every pixel is alike, and the index fits its type.
    constexpr float kFar = 1e8f;
    if (!(at > -kFar && at < kFar)) at = at > 0 ? kFar : -kFar;
    if (args_.mode == SampleMode::kNearest) return Taps(std::nearbyint(at), 1, {1, 0, 0, 0});
    if (args_.padding == SamplePadding::kReflection) at = Reflect(at, low_, high_);
    if (args_.mode == SampleMode::kLinear) {
      if (args_.padding == SamplePadding::kBorder) at = std::clamp(at, 0.0f, size_ - 1);
      const float base = std::floor(at);
      return Taps(base, 2, {1 - (at - base), at - base, 0, 0});
    }
    const float base = std::floor(at), f = at - base;
    return Taps(base - 1, 4, {Far(1 + f), Near(f), Near(1 - f), Far(2 - f)});
  }

 private:
  static constexpr float kCubic = -0.75f;
  static float Near(float x) { return ((kCubic + 2) * x - (kCubic + 3)) * x * x + 1; }
  static float Far(float x) {
    return ((kCubic * x - 5 * kCubic) * x + 8 * kCubic) * x - 4 * kCubic;
  }

  AxisTaps Taps(float first, std::size_t count, std::array<float, 4> weights) const {
    AxisTaps taps;
    taps.count = count;
    for (std::size_t t = 0; t < count; ++t) {
      taps.index[t] = Inside(first + static_cast<float>(t));
      taps.weight[t] = weights[t];
    }
    return taps;
  }

  /// -1: nowhere.
  std::int64_t Inside(float at) const {
    if (args_.padding == SamplePadding::kReflection) at = std::nearbyint(Reflect(at, low_, high_));
    if (args_.padding == SamplePadding::kZeros && (at < 0 || at > size_ - 1)) return -1;
    return static_cast<std::int64_t>(std::clamp(at, 0.0f, size_ - 1));
  }

  const GridSampleArgs& args_;
  float size_, low_, high_;
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

/// Vectors of channels that are computed at once.
constexpr size_t kSampleVectors = 4;

/// Calls `compute` with the loader and the first channel, in groups of kVectors vectors.
template <class F>
HWY_INLINE void ForChannels(size_t channels, const F& compute) {
  const size_t lanes = simd::Lanes();
  size_t c = 0;
  for (; c + kSampleVectors * lanes <= channels; c += kSampleVectors * lanes) {
    compute(std::integral_constant<size_t, kSampleVectors>(), simd::Whole(), c);
  }
  for (; c + lanes <= channels; c += lanes) {
    compute(std::integral_constant<size_t, 1>(), simd::Whole(), c);
  }
  if (c < channels) {
    compute(std::integral_constant<size_t, 1>(), simd::Part(channels - c), c);
  }
}

/// One bin of a region.
class Bin {
 public:
  Bin(const RoiAlignArgs& args, size_t task)
      : args_(args),
        column_(task % args.out_width),
        row_(task / args.out_width % args.out_height),
        region_(task / args.out_width / args.out_height),
        y_(args.y + task * args.channels),
        across_(args, args.regions[4 * region_], args.regions[4 * region_ + 2], args.out_width),
        down_(args, args.regions[4 * region_ + 1], args.regions[4 * region_ + 3], args.out_height) {
  }

  /// Sums go to `sums`. False: left, with nothing written. `ctx` is null if the block may not
  /// leave.
  HWY_INLINE bool Compute(float* sums, BlockContext* ctx) const {
    simd::Fill(0, args_.channels, sums);
    const std::int64_t image = args_.images[region_];
    if (image >= 0 && static_cast<size_t>(image) < args_.batch) {
      const float* const x =
          args_.x + static_cast<size_t>(image) * args_.height * args_.width * args_.channels;
      for (size_t i = 0; i < down_.samples; ++i) {
        const Neighbours rows = NeighboursOf(down_.Place(row_, i), args_.height);
        for (size_t j = 0; j < across_.samples; ++j) {
          if (ctx != nullptr && j % 16 == 0 && ctx->ShouldLeave()) return false;
          AddSample(x, rows, NeighboursOf(across_.Place(column_, j), args_.width), i == 0 && j == 0,
                    sums);
        }
      }
    }
    const size_t count = std::max<size_t>(1, down_.samples * across_.samples);
    const V factor = hn::Set(D(), args_.maximum ? 1.0f : 1.0f / static_cast<float>(count));
    ForChannels(args_.channels, [&](auto vectors, const auto& io, size_t c) HWY_ATTR {
      LAGOON_UNROLL for (size_t v = 0; v < vectors.value; ++v) {
        const size_t at = c + v * simd::Lanes();
        io.Store(hn::Mul(io.Load(sums + at), factor), y_ + at);
      }
    });
    return true;
  }

 private:
  HWY_INLINE void AddSample(const float* x, const Neighbours& rows, const Neighbours& columns,
                            bool first, float* sums) const {
    const float* from[4];
    V weights[4];
    LAGOON_UNROLL for (size_t t = 0; t < 4; ++t) {
      const size_t row = t < 2 ? rows.low : rows.high;
      const size_t column = t % 2 == 0 ? columns.low : columns.high;
      from[t] = x + (row * args_.width + column) * args_.channels;
      weights[t] = hn::Set(D(), (t < 2 ? rows.at_low : rows.at_high) *
                                    (t % 2 == 0 ? columns.at_low : columns.at_high));
    }
    ForChannels(args_.channels, [&](auto vectors, const auto& io, size_t c) HWY_ATTR {
      LAGOON_UNROLL for (size_t v = 0; v < vectors.value; ++v) {
        const size_t at = c + v * simd::Lanes();
        V sum = io.Load(sums + at);
        if (args_.maximum) {
          V most = hn::Mul(weights[0], io.Load(from[0] + at));
          for (size_t t = 1; t < 4; ++t) {
            most = simd::MaxOrNan(most, hn::Mul(weights[t], io.Load(from[t] + at)));
          }
          sum = first ? most : simd::MaxOrNan(sum, most);
        } else {
          for (size_t t = 0; t < 4; ++t) {
            sum = hn::MulAdd(weights[t], io.Load(from[t] + at), sum);
          }
        }
        io.Store(sum, sums + at);
      }
    });
  }

  const RoiAlignArgs& args_;
  size_t column_, row_, region_;
  float* y_;
  RegionAxis across_, down_;
};

bool RoiAlignBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const RoiAlignArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  auto* const sums = reinterpret_cast<float*>(ctx.scratch().data());
  // Only a block of one bin may leave in the middle: in others, earlier bins are written by then.
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    if (!Bin(args, task).Compute(sums, may_leave)) return false;
  }
  return true;
}

/// The pixels that a place is computed from, as offsets from the image, with their weights.
struct PlaceTaps {
  size_t count = 0;
  size_t offset[16];
  float weight[16];
};

HWY_INLINE PlaceTaps TapsOf(const GridSampleArgs& args, const float* place) {
  AxisTaps axes[3];
  for (size_t i = 0; i < args.axes; ++i) {
    const size_t axis = 2 - i;
    axes[axis] = AxisSampler(args, axis).At(place[i]);
  }
  PlaceTaps taps;
  for (size_t a = 0; a < axes[0].count; ++a) {
    for (size_t b = 0; b < axes[1].count; ++b) {
      for (size_t c = 0; c < axes[2].count; ++c) {
        const std::int64_t at[3] = {axes[0].index[a], axes[1].index[b], axes[2].index[c]};
        if (at[0] < 0 || at[1] < 0 || at[2] < 0) continue;
        const size_t pixel =
            (static_cast<size_t>(at[0]) * args.in[1] + static_cast<size_t>(at[1])) * args.in[2] +
            static_cast<size_t>(at[2]);
        taps.offset[taps.count] = pixel * args.channels;
        taps.weight[taps.count++] = axes[0].weight[a] * axes[1].weight[b] * axes[2].weight[c];
      }
    }
  }
  return taps;
}

HWY_INLINE void SamplePlace(const GridSampleArgs& args, size_t task) {
  const PlaceTaps taps = TapsOf(args, args.grid + task * args.axes);
  const size_t pixels = args.in[0] * args.in[1] * args.in[2];
  const float* const x = args.x + task / args.places * pixels * args.channels;
  float* const y = args.y + task * args.channels;
  ForChannels(args.channels, [&](auto vectors, const auto& io, size_t c) HWY_ATTR {
    V sums[vectors.value];
    LAGOON_UNROLL for (size_t v = 0; v < vectors.value; ++v) sums[v] = hn::Zero(D());
    for (size_t t = 0; t < taps.count; ++t) {
      const V weight = hn::Set(D(), taps.weight[t]);
      LAGOON_UNROLL for (size_t v = 0; v < vectors.value; ++v) {
        sums[v] = hn::MulAdd(weight, io.Load(x + taps.offset[t] + c + v * simd::Lanes()), sums[v]);
      }
    }
    LAGOON_UNROLL for (size_t v = 0; v < vectors.value; ++v)
        io.Store(sums[v], y + c + v * simd::Lanes());
  });
}

bool GridSampleBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const GridSampleArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  for (size_t task = tasks.begin; task < tasks.end; ++task) SamplePlace(args, task);
  return true;
}

}  // namespace

Body PickRoiAlignBody() { return &RoiAlignBody; }
Body PickGridSampleBody() { return &GridSampleBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickRoiAlignBody);
HWY_EXPORT(PickGridSampleBody);

// Estimates, not measured: a weighted pixel of one channel, and the weights of a place.
constexpr double kNsPerTap = 0.08;
constexpr double kNsPerPlace = 40;

}  // namespace

Result<Kernel> MakeRoiAlign(const RoiAlignSpec& spec) {
  constexpr char kName[] = "roi_align";
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "x",
                                       {{"batch", spec.batch},
                                        {"height", spec.height},
                                        {"width", spec.width},
                                        {"channels", spec.channels}}));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(kName, "y",
                                                                 {{"regions", spec.regions},
                                                                  {"out_height", spec.out_height},
                                                                  {"out_width", spec.out_width},
                                                                  {"channels", spec.channels}}));
  if (spec.samples > kMostRoiSamples) {
    return Invalid(kName, fmt::format("{} samples along an axis of a bin, the most is {}",
                                      spec.samples, kMostRoiSamples));
  }
  RoiAlignArgs args;
  args.batch = spec.batch;
  args.height = spec.height;
  args.width = spec.width;
  args.channels = spec.channels;
  args.out_height = spec.out_height;
  args.out_width = spec.out_width;
  args.samples = spec.samples;
  args.scale = spec.scale;
  args.half_pixel = spec.half_pixel;
  args.maximum = spec.maximum;
  args.tasks = count / spec.channels;
  const double samples = static_cast<double>(spec.samples * spec.samples);
  const double ns = samples * (4 * kNsPerTap * static_cast<double>(spec.channels) + kNsPerPlace);
  // Where the regions decide how long a bin takes, a block is one bin, and may leave in the middle.
  args.blocks =
      spec.samples == 0 ? args.tasks : BlocksFor(ns * static_cast<double>(args.tasks), args.tasks);
  Kernel kernel;
  kernel.name = "roi_align";
  kernel.body = LAGOON_DISPATCH(PickRoiAlignBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = spec.channels * sizeof(float);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(RoiAlignArgs, x), offsetof(RoiAlignArgs, regions),
                   offsetof(RoiAlignArgs, images)};
  kernel.outputs = {offsetof(RoiAlignArgs, y)};
  kernel.flops = 8 * std::max(1.0, samples) * static_cast<double>(count);
  kernel.bytes_moved = 2 * sizeof(float) * static_cast<double>(count);
  return kernel;
}

Result<Kernel> MakeGridSample(const GridSampleSpec& spec) {
  constexpr char kName[] = "grid_sample";
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "x",
                                       {{"batch", spec.batch},
                                        {"depth", spec.in[0]},
                                        {"height", spec.in[1]},
                                        {"width", spec.in[2]},
                                        {"channels", spec.channels}}));
  LAGOON_ASSIGN_OR_RETURN(
      const std::size_t count,
      CheckElements(kName, "y",
                    {{"batch", spec.batch}, {"places", spec.places}, {"channels", spec.channels}}));
  const bool cubic = spec.mode == SampleMode::kCubic;
  if ((spec.axes != 2 && spec.axes != 3) || (cubic && spec.axes != 2) ||
      (spec.axes == 2 && spec.in[0] != 1)) {
    return Invalid(kName, fmt::format("{} axes of [{},{},{}]{}", spec.axes, spec.in[0], spec.in[1],
                                      spec.in[2], cubic ? ", cubic takes 2" : ""));
  }
  GridSampleArgs args;
  args.channels = spec.channels;
  args.places = spec.places;
  args.axes = spec.axes;
  std::copy(spec.in.begin(), spec.in.end(), args.in);
  args.mode = spec.mode;
  args.padding = spec.padding;
  args.align_corners = spec.align_corners;
  args.tasks = spec.batch * spec.places;
  const std::size_t taps =
      spec.mode == SampleMode::kNearest ? 1 : (cubic ? 16 : std::size_t{1} << spec.axes);
  const double products = static_cast<double>(count) * static_cast<double>(taps);
  args.blocks =
      BlocksFor(kNsPerTap * products + kNsPerPlace * static_cast<double>(args.tasks), args.tasks);
  Kernel kernel;
  kernel.name = "grid_sample";
  kernel.body = LAGOON_DISPATCH(PickGridSampleBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(GridSampleArgs, x), offsetof(GridSampleArgs, grid)};
  kernel.outputs = {offsetof(GridSampleArgs, y)};
  kernel.flops = 2 * products;
  kernel.bytes_moved = 2 * sizeof(float) * static_cast<double>(count);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
