// The bodies of pooling, once per Highway target.

#if defined(LAGOON_KERNELS_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_POOL_INL_H_
#undef LAGOON_KERNELS_POOL_INL_H_
#else
#define LAGOON_KERNELS_POOL_INL_H_
#endif

#include <limits>

#include "kernels/simd/simd-inl.h"
#include "kernels/window/pool_args.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

struct MaxOf {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static HWY_INLINE V Add(V acc, V v) { return simd::MaxOrNan(acc, v); }
};

struct SumOf {
  static constexpr float kStart = 0;
  static HWY_INLINE V Add(V acc, V v) { return hn::Add(acc, v); }
};

/// The taps of one output that meet the image.
struct PoolWindow {
  const float* x = nullptr;  // the first of these taps, at the tile's first channel
  float* y = nullptr;
  size_t rows = 0, columns = 0;
  size_t row_step = 0, column_step = 0;  // in elements
  float scale = 1;
};

template <class Fold, size_t kVectors, class Io>
HWY_INLINE void PoolVectors(const Io& io, const PoolWindow& w, size_t c) {
  const size_t lanes = simd::Lanes();
  const V start = hn::Set(D(), Fold::kStart);
  V acc[4] = {start, start, start, start};
  for (size_t row = 0; row < w.rows; ++row) {
    const float* x = w.x + c + row * w.row_step;
    for (size_t column = 0; column < w.columns; ++column, x += w.column_step) {
      acc[0] = Fold::Add(acc[0], io.Load(x));
      if constexpr (kVectors == 4) {
        acc[1] = Fold::Add(acc[1], io.Load(x + lanes));
        acc[2] = Fold::Add(acc[2], io.Load(x + 2 * lanes));
        acc[3] = Fold::Add(acc[3], io.Load(x + 3 * lanes));
      }
    }
  }
  const V scale = hn::Set(D(), w.scale);
  float* y = w.y + c;
  io.Store(hn::Mul(acc[0], scale), y);
  if constexpr (kVectors == 4) {
    io.Store(hn::Mul(acc[1], scale), y + lanes);
    io.Store(hn::Mul(acc[2], scale), y + 2 * lanes);
    io.Store(hn::Mul(acc[3], scale), y + 3 * lanes);
  }
}

template <class Fold>
HWY_INLINE void RunPoolWindow(const PoolWindow& w, size_t channels) {
  const size_t lanes = simd::Lanes();
  size_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes) PoolVectors<Fold, 4>(simd::Whole(), w, c);
  for (; c + lanes <= channels; c += lanes) PoolVectors<Fold, 1>(simd::Whole(), w, c);
  if (c < channels) PoolVectors<Fold, 1>(simd::Part(channels - c), w, c);
}

/// Taps between two guard checks of a long window. A tap of one vector from memory takes 5 to 10
/// ns.
constexpr size_t kTapsPerCheck = 1024;

/// One vector of one window; may leave between taps. Long sums are made of shorter ones to keep the
/// rounding error small.
template <class Fold, class Io>
bool LongWindow(const Io& io, const PoolWindow& w, BlockContext& ctx) {
  V total = hn::Set(D(), Fold::kStart);
  V part = total;
  size_t taps = 0;
  for (size_t row = 0; row < w.rows; ++row) {
    const float* x = w.x + row * w.row_step;
    for (size_t column = 0; column < w.columns; ++column, x += w.column_step) {
      part = Fold::Add(part, io.Load(x));
      if (++taps % kTapsPerCheck != 0) continue;
      if (ctx.ShouldLeave()) return false;
      total = Fold::Add(total, part);
      part = hn::Set(D(), Fold::kStart);
    }
  }
  io.Store(hn::Mul(Fold::Add(total, part), hn::Set(D(), w.scale)), w.y);
  return true;
}

HWY_INLINE float ScaleOf(const PoolSpec& spec, size_t row, size_t column, size_t taps) {
  if (spec.kind == PoolSpec::Kind::kMax) return 1;
  if (spec.kind == PoolSpec::Kind::kAverage) return 1.0f / static_cast<float>(taps);
  return 1.0f /
         static_cast<float>(TapsWithPadding(RowAxis(spec.window), spec.pad_bottom, row) *
                            TapsWithPadding(ColumnAxis(spec.window), spec.pad_right, column));
}

HWY_INLINE PoolWindow WindowAt(const PoolArgs& args, size_t index, size_t channel) {
  const PoolSpec& spec = args.spec;
  const ImageWindow& w = spec.window;
  const size_t column = index % w.out_width;
  const size_t row = index / w.out_width % w.out_height;
  const size_t image = index / w.out_width / w.out_height;
  const AxisTaps rows = TapsOf(RowAxis(w), row);
  const AxisTaps columns = TapsOf(ColumnAxis(w), column);
  const size_t pixel =
      (image * w.height + rows.start(w.dilation_h)) * w.width + columns.start(w.dilation_w);
  PoolWindow window;
  window.x = args.x + pixel * spec.channels + channel;
  window.y = args.y + index * spec.channels + channel;
  window.rows = rows.count;
  window.columns = columns.count;
  window.row_step = size_t{w.dilation_h} * w.width * spec.channels;
  window.column_step = size_t{w.dilation_w} * spec.channels;
  window.scale = ScaleOf(spec, row, column, rows.count * columns.count);
  return window;
}

template <class Fold>
bool PoolBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const PoolArgs*>(raw);
  const PoolSpec& spec = args.spec;
  const size_t channel = size_t{block % args.channel_tiles} * args.channel_tile;
  const size_t channels = std::min<size_t>(args.channel_tile, spec.channels - channel);
  const size_t windows = OutputPixels(spec.window);
  const Range range = Share(windows, args.window_tiles, block / args.channel_tiles);
  if (args.long_windows) {
    const PoolWindow window = WindowAt(args, range.begin, channel);
    return channels == simd::Lanes() ? LongWindow<Fold>(simd::Whole(), window, ctx)
                                     : LongWindow<Fold>(simd::Part(channels), window, ctx);
  }
  for (size_t index = range.begin; index < range.end; ++index) {
    RunPoolWindow<Fold>(WindowAt(args, index, channel), channels);
  }
  return true;
}

}  // namespace

PoolBodies PickPoolBodies() {
  return {.max = &PoolBody<MaxOf>, .average = &PoolBody<SumOf>, .lanes = simd::Lanes()};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_POOL_INL_H_
