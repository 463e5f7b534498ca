// The body of the depthwise convolution, once per Highway target.

#if defined(LAGOON_KERNELS_DEPTHWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_DEPTHWISE_INL_H_
#undef LAGOON_KERNELS_DEPTHWISE_INL_H_
#else
#define LAGOON_KERNELS_DEPTHWISE_INL_H_
#endif

#include <algorithm>

#include "kernels/conv/depthwise_args.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"
#include "kernels/window.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

/// Neighbouring outputs of one row. Pointers point to the tile's first channel; strides in
/// elements.
struct Strip {
  /// At the first column that is not padding and the first filter row that meets the image.
  const float* x = nullptr;
  const float* weights = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  size_t x_row = 0, weight_row = 0;  // from one filter row to the next
  size_t pixel = 0;                  // from one column to the next, over all channels
  size_t rows = 0;                   // number of filter rows that meet the image
  size_t channels = 0;               // channels of the tile
  size_t left = 0, right = 0;        // columns [left, right) are not padding; only for ShapeWide
  Limits limits;
};

/// acc plus tap kTap of a row of three; acc itself if there is no such tap (kTap > 2, also from a
/// wrapped negative number).
template <size_t kTap>
HWY_INLINE V Tap(V x, V w0, V w1, V w2, V acc) {
  if constexpr (kTap == 0) return hn::MulAdd(x, w0, acc);
  if constexpr (kTap == 1) return hn::MulAdd(x, w1, acc);
  if constexpr (kTap == 2) return hn::MulAdd(x, w2, acc);
  return acc;
}

/// The shape of a strip of a 3-wide filter: kPixels outputs at stride kStride. kLeft, kRight:
/// whether the first, the last column of the strip is padding.
template <size_t kStride, size_t kPixels, bool kLeft, bool kRight>
struct Shape3 {
  static constexpr size_t kColumns = (kPixels - 1) * kStride + 3;

  template <size_t kColumn>
  static HWY_INLINE void Column(const float* x, size_t pixel, const V (&w)[3], V (&acc)[4]) {
    if constexpr (kColumn < kColumns && !(kLeft && kColumn == 0) &&
                  !(kRight && kColumn + 1 == kColumns)) {
      const V v = simd::Whole::Load(x + (kColumn - kLeft) * pixel);
      acc[0] = Tap<kColumn>(v, w[0], w[1], w[2], acc[0]);
      if constexpr (kPixels > 1) acc[1] = Tap<kColumn - kStride>(v, w[0], w[1], w[2], acc[1]);
      if constexpr (kPixels > 2) acc[2] = Tap<kColumn - 2 * kStride>(v, w[0], w[1], w[2], acc[2]);
      if constexpr (kPixels > 3) acc[3] = Tap<kColumn - 3 * kStride>(v, w[0], w[1], w[2], acc[3]);
    }
  }

  /// Computes one vector of channels, at channel `c` of the tile.
  static HWY_INLINE void Vector(const Strip& s, size_t c) {
    using simd::Whole;
    const V start = s.bias != nullptr ? Whole::Load(s.bias + c) : hn::Zero(D());
    V acc[4] = {start, start, start, start};
    const float* x = s.x + c;
    const float* weights = s.weights + c;
    for (size_t row = 0; row < s.rows; ++row, x += s.x_row, weights += s.weight_row) {
      const V w[3] = {Whole::Load(weights), Whole::Load(weights + s.pixel),
                      Whole::Load(weights + 2 * s.pixel)};
      Column<0>(x, s.pixel, w, acc);
      Column<1>(x, s.pixel, w, acc);
      Column<2>(x, s.pixel, w, acc);
      Column<3>(x, s.pixel, w, acc);
      Column<4>(x, s.pixel, w, acc);
      Column<5>(x, s.pixel, w, acc);
      Column<6>(x, s.pixel, w, acc);
      Column<7>(x, s.pixel, w, acc);
      Column<8>(x, s.pixel, w, acc);
    }
    const V low = hn::Set(D(), s.limits.low), high = hn::Set(D(), s.limits.high);
    float* y = s.y + c;
    Whole::Store(simd::Clamp(acc[0], low, high), y);
    if constexpr (kPixels > 1) Whole::Store(simd::Clamp(acc[1], low, high), y + s.pixel);
    if constexpr (kPixels > 2) Whole::Store(simd::Clamp(acc[2], low, high), y + 2 * s.pixel);
    if constexpr (kPixels > 3) Whole::Store(simd::Clamp(acc[3], low, high), y + 3 * s.pixel);
  }

  /// The tile must have at least as many channels as a vector: the last vector ends with the tile.
  static void Run(const Strip& s) {
    const size_t lanes = simd::Lanes();
    size_t c = 0;
    for (; c + lanes <= s.channels; c += lanes) Vector(s, c);
    if (c < s.channels) Vector(s, s.channels - lanes);
  }
};

using StripFunction = void (*)(const Strip&);

template <size_t kStride, size_t kPixels>
HWY_INLINE StripFunction PickEdges(bool left, bool right) {
  if (left) {
    return right ? &Shape3<kStride, kPixels, true, true>::Run
                 : &Shape3<kStride, kPixels, true, false>::Run;
  }
  return right ? &Shape3<kStride, kPixels, false, true>::Run
               : &Shape3<kStride, kPixels, false, false>::Run;
}

template <size_t kStride>
HWY_INLINE StripFunction PickStrip(size_t pixels, bool left, bool right) {
  switch (pixels) {
    case 4:
      return PickEdges<kStride, 4>(left, right);
    case 3:
      return PickEdges<kStride, 3>(left, right);
    case 2:
      return PickEdges<kStride, 2>(left, right);
    default:
      return PickEdges<kStride, 1>(left, right);
  }
}

/// Vectors of channels that ShapeWide computes together: sums that do not wait for each other.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr size_t kWideVectors = 2;
#else
constexpr size_t kWideVectors = 1;  // 16 registers
#endif

/// The shape of a strip of a filter kTaps wide: kPixels outputs at stride kStride. kEdges: whether
/// columns of the strip may be padding.
template <size_t kTaps, size_t kStride, size_t kPixels, bool kEdges>
struct ShapeWide {
  static constexpr size_t kColumns = (kPixels - 1) * kStride + kTaps;

  /// Adds column `column` of the strip, at `x`, to the outputs that it serves.
  template <size_t kVectors>
  static HWY_INLINE void Column(const float* x, size_t column, const V (&w)[kVectors][kTaps],
                                V (&acc)[kVectors][kPixels]) {
    LAGOON_UNROLL for (size_t v = 0; v < kVectors; ++v) {
      const V value = simd::Whole::Load(x + v * simd::Lanes());
      LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
        const size_t tap = column - p * kStride;  // wraps to a huge number below 0
        if (tap < kTaps) acc[v][p] = hn::MulAdd(value, w[v][tap], acc[v][p]);
      }
    }
  }

  /// Computes kVectors vectors of channels, from channel `c` of the tile on.
  template <size_t kVectors>
  static HWY_INLINE void Vectors(const Strip& s, size_t c) {
    const size_t lanes = simd::Lanes();
    V acc[kVectors][kPixels];
    LAGOON_UNROLL for (size_t v = 0; v < kVectors; ++v) {
      const V start = s.bias != nullptr ? simd::Whole::Load(s.bias + c + v * lanes) : hn::Zero(D());
      LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) acc[v][p] = start;
    }
    const float* x = s.x + c;
    const float* weights = s.weights + c;
    for (size_t row = 0; row < s.rows; ++row, x += s.x_row, weights += s.weight_row) {
      V w[kVectors][kTaps];
      LAGOON_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        LAGOON_UNROLL for (size_t tap = 0; tap < kTaps; ++tap) {
          w[v][tap] = simd::Whole::Load(weights + tap * s.pixel + v * lanes);
        }
      }
      LAGOON_UNROLL for (size_t column = 0; column < kColumns; ++column) {
        if (kEdges && (column < s.left || column >= s.right)) continue;
        Column<kVectors>(x + (column - (kEdges ? s.left : 0)) * s.pixel, column, w, acc);
      }
    }
    const V low = hn::Set(D(), s.limits.low), high = hn::Set(D(), s.limits.high);
    float* y = s.y + c;
    LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p, y += s.pixel) {
      LAGOON_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        simd::Whole::Store(simd::Clamp(acc[v][p], low, high), y + v * lanes);
      }
    }
  }

  /// The tile must have at least as many channels as a vector: the last vector ends with the tile.
  static void Run(const Strip& s) {
    const size_t lanes = simd::Lanes(), step = kWideVectors * lanes;
    size_t c = 0;
    for (; c + step <= s.channels; c += step) Vectors<kWideVectors>(s, c);
    for (; c + lanes <= s.channels; c += lanes) Vectors<1>(s, c);
    if (c < s.channels) Vectors<1>(s, s.channels - lanes);
  }
};

template <size_t kTaps, size_t kStride>
HWY_INLINE StripFunction PickWideStrip(size_t pixels, bool edges) {
  switch (pixels) {
    case 4:
      return edges ? &ShapeWide<kTaps, kStride, 4, true>::Run
                   : &ShapeWide<kTaps, kStride, 4, false>::Run;
    case 3:
      return &ShapeWide<kTaps, kStride, 3, true>::Run;
    case 2:
      return &ShapeWide<kTaps, kStride, 2, true>::Run;
    default:
      return &ShapeWide<kTaps, kStride, 1, true>::Run;
  }
}

/// The taps of one output that meet the image, for filters of any shape.
struct Window {
  const float* x = nullptr;  // first tap that meets the image, at the tile's first channel
  const float* weights = nullptr;
  size_t rows = 0, columns = 0;
  size_t x_row = 0, x_column = 0;  // from one tap to the next
  size_t weight_row = 0, weight_column = 0;
};

template <size_t kVectors, class Io>
HWY_INLINE void WindowVectors(const Io& io, const Window& w, const Strip& s, size_t c) {
  const size_t lanes = simd::Lanes();
  V acc[4];
  for (size_t v = 0; v < 4; ++v) {
    acc[v] = v < kVectors && s.bias != nullptr ? io.Load(s.bias + c + v * lanes) : hn::Zero(D());
  }
  for (size_t row = 0; row < w.rows; ++row) {
    const float* x = w.x + c + row * w.x_row;
    const float* weights = w.weights + c + row * w.weight_row;
    for (size_t column = 0; column < w.columns; ++column) {
      acc[0] = hn::MulAdd(io.Load(x), io.Load(weights), acc[0]);
      if constexpr (kVectors == 4) {
        acc[1] = hn::MulAdd(io.Load(x + lanes), io.Load(weights + lanes), acc[1]);
        acc[2] = hn::MulAdd(io.Load(x + 2 * lanes), io.Load(weights + 2 * lanes), acc[2]);
        acc[3] = hn::MulAdd(io.Load(x + 3 * lanes), io.Load(weights + 3 * lanes), acc[3]);
      }
      x += w.x_column;
      weights += w.weight_column;
    }
  }
  const V low = hn::Set(D(), s.limits.low), high = hn::Set(D(), s.limits.high);
  io.Store(simd::Clamp(acc[0], low, high), s.y + c);
  if constexpr (kVectors == 4) {
    io.Store(simd::Clamp(acc[1], low, high), s.y + c + lanes);
    io.Store(simd::Clamp(acc[2], low, high), s.y + c + 2 * lanes);
    io.Store(simd::Clamp(acc[3], low, high), s.y + c + 3 * lanes);
  }
}

void RunWindow(const Window& w, const Strip& s) {
  const size_t lanes = simd::Lanes();
  size_t c = 0;
  for (; c + 4 * lanes <= s.channels; c += 4 * lanes) WindowVectors<4>(simd::Whole(), w, s, c);
  for (; c + lanes <= s.channels; c += lanes) WindowVectors<1>(simd::Whole(), w, s, c);
  if (c < s.channels) WindowVectors<1>(simd::Part(s.channels - c), w, s, c);
}

/// Computes one row of a tile.
class RowRunner {
 public:
  HWY_INLINE RowRunner(const DepthwiseArgs& args, size_t image, size_t row, Range channels)
      : spec_(args.spec) {
    const ImageWindow& w = spec_.window;
    const AxisTaps taps = TapsOf(RowAxis(w), row);
    const size_t x_row = size_t{w.width} * spec_.channels;
    x_ = args.x + (image * w.height + taps.start(w.dilation_h)) * x_row + channels.begin;
    strip_.weights = args.weights + taps.first * w.kernel_w * spec_.channels + channels.begin;
    strip_.bias = args.bias == nullptr ? nullptr : args.bias + channels.begin;
    y_ = args.y + (image * w.out_height + row) * w.out_width * spec_.channels + channels.begin;
    strip_.x_row = w.dilation_h * x_row;
    strip_.weight_row = size_t{w.kernel_w} * spec_.channels;
    strip_.pixel = spec_.channels;
    strip_.rows = taps.count;
    strip_.channels = channels.size();
    strip_.limits = args.limits;
  }

  /// For any filter: one output after the other.
  HWY_INLINE void Plain(Range columns) {
    for (size_t column = columns.begin; column < columns.end; ++column) {
      const AxisTaps taps = TapsOf(ColumnAxis(spec_.window), column);
      Window window;
      window.rows = taps.count == 0 ? 0 : strip_.rows;
      window.columns = taps.count;
      window.x_row = strip_.x_row;
      window.x_column = size_t{spec_.window.dilation_w} * spec_.channels;
      window.weight_row = strip_.weight_row;
      window.weight_column = spec_.channels;
      window.x = x_ + taps.start(spec_.window.dilation_w) * spec_.channels;
      window.weights = strip_.weights + (taps.count == 0 ? 0 : taps.first * spec_.channels);
      strip_.y = y_ + column * spec_.channels;
      RunWindow(window, strip_);
    }
  }

  /// For filters three wide without dilation, with at most one column of padding on each side of a
  /// strip.
  template <size_t kStride>
  HWY_INLINE void Three(Range columns) {
    for (size_t column = columns.begin; column < columns.end;) {
      const ptrdiff_t origin =
          static_cast<ptrdiff_t>(column * kStride) - static_cast<ptrdiff_t>(spec_.window.pad_left);
      const size_t pixels = std::min<size_t>(4, columns.end - column);
      const ptrdiff_t end = origin + static_cast<ptrdiff_t>((pixels - 1) * kStride + 3);
      const ptrdiff_t width = spec_.window.width;
      if (origin < -1 || end > width + 1) {
        Plain({column, column + 1});
        ++column;
        continue;
      }
      strip_.x = x_ + static_cast<size_t>(std::max<ptrdiff_t>(origin, 0)) * spec_.channels;
      strip_.y = y_ + column * spec_.channels;
      const bool left = origin < 0;
      const bool right = end > width;
      PickStrip<kStride>(pixels, left, right)(strip_);
      column += pixels;
    }
  }

  /// For filters five or seven wide without dilation.
  template <size_t kTaps, size_t kStride>
  HWY_INLINE void Wide(Range columns) {
    const auto width = static_cast<ptrdiff_t>(spec_.window.width);
    for (size_t column = columns.begin; column < columns.end;) {
      const ptrdiff_t origin =
          static_cast<ptrdiff_t>(column * kStride) - static_cast<ptrdiff_t>(spec_.window.pad_left);
      const size_t pixels = std::min<size_t>(4, columns.end - column);
      const auto reach = static_cast<ptrdiff_t>((pixels - 1) * kStride + kTaps);
      strip_.left = static_cast<size_t>(std::max<ptrdiff_t>(-origin, 0));
      strip_.right = static_cast<size_t>(std::clamp<ptrdiff_t>(width - origin, 0, reach));
      strip_.x = x_ + static_cast<size_t>(std::max<ptrdiff_t>(origin, 0)) * spec_.channels;
      strip_.y = y_ + column * spec_.channels;
      const bool edges = origin < 0 || origin + reach > width;
      PickWideStrip<kTaps, kStride>(pixels, edges)(strip_);
      column += pixels;
    }
  }

  /// The strips of an unrolled body.
  template <size_t kTaps, size_t kStride>
  HWY_INLINE void Unrolled(Range columns) {
    if constexpr (kTaps == 3) {
      Three<kStride>(columns);
    } else {
      Wide<kTaps, kStride>(columns);
    }
  }

  /// Applies `finish` to the outputs that the other functions have written.
  HWY_INLINE void Finish(const lagoon::Finish& finish, Range columns) {
    const size_t channels = spec_.channels;
    float* const y = y_ + columns.begin * channels;
    if (strip_.channels == channels) return finish(y, nullptr, columns.size() * channels);
    for (size_t column = 0; column < columns.size(); ++column) {
      finish(y + column * channels, nullptr, strip_.channels);
    }
  }

 private:
  const DepthwiseSpec& spec_;
  const float* x_ = nullptr;  // column 0 of the first filter row that meets the image
  float* y_ = nullptr;        // column 0 of the output row
  Strip strip_;
};

/// A tile is walked in strips of this many columns, top to bottom, so that the input rows under the
/// filter stay in the first-level cache (3 x 18 x 144 floats are 31 KB). Measured on 56x56x144 at
/// stride 2: 62 us instead of 92.
constexpr size_t kColumnsAtOnce = 16;

/// kTaps and kStride: of a filter without dilation that has an unrolled body; 0: any filter.
template <size_t kTaps, size_t kStride>
bool DepthwiseBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const DepthwiseArgs*>(raw);
  const DepthwiseSpec& spec = args.spec;
  const size_t channel_tile = block % args.channel_tiles;
  const size_t column_tile = block / args.channel_tiles % args.column_tiles;
  const size_t row_tile = block / args.channel_tiles / args.column_tiles % args.row_tiles;
  const size_t image = block / args.channel_tiles / args.column_tiles / args.row_tiles;
  const size_t grains = CeilDivide(spec.channels, kDepthwiseChannelGrain);
  Range channels = Share(grains, args.channel_tiles, channel_tile);
  channels.begin *= kDepthwiseChannelGrain;
  channels.end = std::min<size_t>(spec.channels, channels.end * kDepthwiseChannelGrain);
  // The unrolled body takes whole vectors only. That halves the code.
  const bool unrolled = kStride != 0 && channels.size() >= simd::Lanes();
  const Range rows = Share(spec.window.out_height, args.row_tiles, row_tile);
  const Range columns = Share(spec.window.out_width, args.column_tiles, column_tile);
  for (size_t column = columns.begin; column < columns.end; column += kColumnsAtOnce) {
    const Range strip{column, std::min(columns.end, column + kColumnsAtOnce)};
    for (size_t row = rows.begin; row < rows.end; ++row) {
      RowRunner runner(args, image, row, channels);
      if constexpr (kStride != 0) {
        if (unrolled) runner.Unrolled<kTaps, kStride>(strip);
      }
      if (!unrolled) runner.Plain(strip);
      if (args.finish.row != nullptr) runner.Finish(args.finish, strip);
    }
  }
  return true;
}

}  // namespace

Body PickDepthwiseBody(const DepthwiseSpec& spec) {
  if (!IsUnrolled(spec)) return &DepthwiseBody<0, 0>;
  const bool dense = spec.window.stride_w == 1;
  switch (spec.window.kernel_w) {
    case 3:
      return dense ? &DepthwiseBody<3, 1> : &DepthwiseBody<3, 2>;
    case 5:
      return dense ? &DepthwiseBody<5, 1> : &DepthwiseBody<5, 2>;
    default:
      return dense ? &DepthwiseBody<7, 1> : &DepthwiseBody<7, 2>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_DEPTHWISE_INL_H_
