#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window/byte_pool.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"
#include "kernels/window.h"
#include "kernels/window/byte_pool.h"

#ifndef LAGOON_KERNELS_BYTE_POOL_
#define LAGOON_KERNELS_BYTE_POOL_
namespace lagoon {
namespace {

struct ByteMaxPoolArgs {
  const std::uint8_t* x = nullptr;
  std::uint8_t* y = nullptr;
  ImageWindow window;
  std::uint32_t channels = 1, pixels = 1, blocks = 1;
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// The taps of one pixel that meet the image.
struct ByteTaps {
  const std::uint8_t* x = nullptr;  // the first of these taps
  std::uint8_t* y = nullptr;
  size_t rows = 0, columns = 0;
  size_t row_step = 0, column_step = 0;  // in bytes
};

HWY_INLINE ByteTaps ByteTapsOf(const ByteMaxPoolArgs& args, size_t pixel) {
  const ImageWindow& w = args.window;
  const size_t row = pixel / w.out_width, image = row / w.out_height;
  const AxisTaps rows = TapsOf(RowAxis(w), row % w.out_height);
  const AxisTaps columns = TapsOf(ColumnAxis(w), pixel % w.out_width);
  const size_t first =
      (image * w.height + rows.start(w.dilation_h)) * w.width + columns.start(w.dilation_w);
  return {.x = args.x + first * args.channels,
          .y = args.y + pixel * args.channels,
          .rows = rows.count,
          .columns = columns.count,
          .row_step = size_t{w.dilation_h} * w.width * args.channels,
          .column_step = size_t{w.dilation_w} * args.channels};
}

/// The channels of one vector, the first of which is `channel`.
template <class Tag>
HWY_INLINE void PoolByteVector(const Tag d, const ByteTaps& taps, size_t channel) {
  auto greatest = hn::Zero(d);
  for (size_t row = 0; row < taps.rows; ++row) {
    const std::uint8_t* x = taps.x + channel + row * taps.row_step;
    for (size_t column = 0; column < taps.columns; ++column, x += taps.column_step) {
      greatest = hn::Max(greatest, hn::LoadU(d, x));
    }
  }
  hn::StoreU(greatest, d, taps.y + channel);
}

/// Covers at least a vector's channels with vectors. The last one overlaps its neighbour.
template <class Tag>
HWY_INLINE void PoolByteVectors(const Tag d, const ByteTaps& taps, size_t channels) {
  const size_t lanes = hn::Lanes(d);
  for (size_t c = 0; c < channels; c += lanes) {
    PoolByteVector(d, taps, std::min(c, channels - lanes));
  }
}

/// In the longest vectors that the channels fill.
HWY_INLINE void PoolPixel(const ByteTaps& taps, size_t channels) {
  const hn::ScalableTag<std::uint8_t> whole;
  const hn::CappedTag<std::uint8_t, 16> short_vector;
  const hn::CappedTag<std::uint8_t, 8> half;
  if (channels >= hn::Lanes(whole)) {
    PoolByteVectors(whole, taps, channels);
  } else if (channels >= hn::Lanes(short_vector)) {
    PoolByteVectors(short_vector, taps, channels);
  } else if (channels >= hn::Lanes(half)) {
    PoolByteVectors(half, taps, channels);
  } else {
    PoolByteVectors(hn::CappedTag<std::uint8_t, 1>(), taps, channels);
  }
}

bool ByteMaxPoolBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ByteMaxPoolArgs*>(raw);
  const Range pixels = Share(args.pixels, args.blocks, block);
  for (std::size_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    PoolPixel(ByteTapsOf(args, pixel), args.channels);
  }
  return true;
}

}  // namespace

Body PickByteMaxPoolBody() { return &ByteMaxPoolBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickByteMaxPoolBody);

constexpr char kByteMaxPool[] = "byte_max_pool";

bool AllMeet(const WindowAxis& axis, std::size_t outputs) {
  for (std::size_t i = 0; i < outputs; ++i) {
    if (TapsOf(axis, i).count == 0) return false;
  }
  return true;
}

/// The planned time of one pixel.
double PixelNs(const ByteMaxPoolSpec& spec) {
  constexpr double kTapNs = 2, kByteNs = 0.05, kLonelyByteNs = 1;
  constexpr std::uint32_t kShortest = 8;  // channels of a vector
  const double byte_ns = spec.channels < kShortest ? kLonelyByteNs : kByteNs;
  const auto taps = static_cast<double>(WindowTaps(spec.window) + 1);
  return taps * (kTapNs + byte_ns * spec.channels);
}

Status CheckByteWindows(const ByteMaxPoolSpec& spec) {
  const ImageWindow& w = spec.window;
  if (!AllMeet(RowAxis(w), w.out_height) || !AllMeet(ColumnAxis(w), w.out_width)) {
    return Invalid(kByteMaxPool, "a window meets no element");
  }
  if (PixelNs(spec) <= kSingleBlockNs) return {};
  return Invalid(kByteMaxPool,
                 fmt::format("a window of {} taps over {} channels is too long for one block",
                             WindowTaps(w), spec.channels));
}

}  // namespace

Result<Kernel> MakeByteMaxPool(const ByteMaxPoolSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckImages(kByteMaxPool, spec.window, {"channels", spec.channels},
                                     {"channels", spec.channels}));
  LAGOON_RETURN_IF_ERROR(CheckPositive(
      kByteMaxPool, {{"kernel_h", spec.window.kernel_h}, {"kernel_w", spec.window.kernel_w}}));
  LAGOON_RETURN_IF_ERROR(CheckByteWindows(spec));
  ByteMaxPoolArgs args;
  args.window = spec.window;
  args.channels = spec.channels;
  args.pixels = static_cast<std::uint32_t>(OutputPixels(spec.window));
  args.blocks = BlocksFor(args.pixels * PixelNs(spec), args.pixels);
  Kernel kernel;
  kernel.name = kByteMaxPool;
  kernel.body = LAGOON_DISPATCH(PickByteMaxPoolBody)();
  kernel.blocks = args.blocks;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ByteMaxPoolArgs, x)};
  kernel.outputs = {offsetof(ByteMaxPoolArgs, y)};
  const double results = static_cast<double>(args.pixels) * spec.channels;
  kernel.flops = results * static_cast<double>(WindowTaps(spec.window));
  kernel.bytes_moved = results + static_cast<double>(InputPixels(spec.window)) * spec.channels;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
