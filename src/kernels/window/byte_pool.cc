#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window/byte_pool.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cstring>

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

using PoolBytes = hn::ScalableTag<std::uint8_t>;

/// y = max(y, x).
HWY_INLINE void TakeGreater(const std::uint8_t* x, std::size_t count, std::uint8_t* y) {
  const PoolBytes d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Max(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  }
  for (; i < count; ++i) y[i] = std::max(x[i], y[i]);
}

HWY_INLINE void PoolPixel(const ByteMaxPoolArgs& args, std::size_t pixel) {
  const ImageWindow& w = args.window;
  const std::size_t row = pixel / w.out_width, image = row / w.out_height;
  const AxisTaps rows = TapsOf(RowAxis(w), row % w.out_height);
  const AxisTaps columns = TapsOf(ColumnAxis(w), pixel % w.out_width);
  const std::size_t top = rows.start(w.dilation_h), left = columns.start(w.dilation_w);
  std::uint8_t* const y = args.y + pixel * args.channels;
  std::memset(y, 0, args.channels);
  for (std::size_t r = 0; r < rows.count; ++r) {
    const std::uint8_t* const line =
        args.x + (image * w.height + top + r * w.dilation_h) * w.width * args.channels;
    for (std::size_t s = 0; s < columns.count; ++s) {
      TakeGreater(line + (left + s * w.dilation_w) * args.channels, args.channels, y);
    }
  }
}

bool ByteMaxPoolBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ByteMaxPoolArgs*>(raw);
  const Range pixels = Share(args.pixels, args.blocks, block);
  for (std::size_t pixel = pixels.begin; pixel < pixels.end; ++pixel) PoolPixel(args, pixel);
  return true;
}

}  // namespace

Body PickByteMaxPoolBody() { return &ByteMaxPoolBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickByteMaxPoolBody);

constexpr char kByteMaxPool[] = "byte_max_pool";

}  // namespace

Result<Kernel> MakeByteMaxPool(const ByteMaxPoolSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckImages(kByteMaxPool, spec.window, {"channels", spec.channels},
                                     {"channels", spec.channels}));
  LAGOON_RETURN_IF_ERROR(CheckPositive(
      kByteMaxPool, {{"kernel_h", spec.window.kernel_h}, {"kernel_w", spec.window.kernel_w}}));
  constexpr double kTapNs = 2, kTapByteNs = 0.05;
  ByteMaxPoolArgs args;
  args.window = spec.window;
  args.channels = spec.channels;
  args.pixels = static_cast<std::uint32_t>(OutputPixels(spec.window));
  const auto taps = static_cast<double>(WindowTaps(spec.window) + 1);
  args.blocks = BlocksFor(args.pixels * taps * (kTapNs + kTapByteNs * spec.channels), args.pixels);
  Kernel kernel;
  kernel.name = kByteMaxPool;
  kernel.body = LAGOON_DISPATCH(PickByteMaxPoolBody)();
  kernel.blocks = args.blocks;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ByteMaxPoolArgs, x)};
  kernel.outputs = {offsetof(ByteMaxPoolArgs, y)};
  const double results = static_cast<double>(args.pixels) * spec.channels;
  kernel.flops = results * taps;
  kernel.bytes_moved = results + static_cast<double>(InputPixels(spec.window)) * spec.channels;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
