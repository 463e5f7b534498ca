// The body of the grouped convolution, once per Highway target.

#if defined(LAGOON_KERNELS_GROUPED_CONV_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_GROUPED_CONV_INL_H_
#undef LAGOON_KERNELS_GROUPED_CONV_INL_H_
#else
#define LAGOON_KERNELS_GROUPED_CONV_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/conv/grouped_conv_args.h"
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

// One register per pixel for its sum, and three for the weights, the input and its permutation.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr size_t kPixelsAtOnce = 14;
#else
constexpr size_t kPixelsAtOnce = 12;
#endif
static_assert(kPixelsAtOnce <= kMaxGroupedPixels);

/// A segment of a panel over a piece. Strides in floats.
struct Segment {
  const float* x = nullptr;  // in the patch: first pixel, first filter row and column of the piece
  size_t pixel = 0, column = 0, row = 0;  // stride to the next pixel, filter column, filter row
  const float* weights = nullptr;         // at the first filter row and column of the piece
  size_t weights_row = 0;                 // stride to the next filter row
  size_t rows = 0, columns = 0;           // number of taps
  size_t depth = 0;                       // channels per group
  Range piece;                            // of the depth
  /// [channel of a group][lane]: the position within a pixel of the patch that a lane reads.
  const int32_t* lanes = nullptr;
  float* sums = nullptr;  // [pixel][lane]
  bool last = false;      // the last piece: then the limited sums go to y
  float* y = nullptr;
  size_t y_pixel = 0, y_count = 0;  // stride to the next pixel; channels of the panel
  Limits limits;
};

/// Pointers to pixels at an equal pitch. One pointer serves three pixels, because x86 has too few
/// registers for one pointer per pixel.
template <size_t kPixels>
struct PixelPointers {
  static constexpr size_t kCount = (kPixels + 2) / 3;
  const float* at[kCount];

  HWY_INLINE PixelPointers(const float* x, size_t pitch) {
    LAGOON_UNROLL for (size_t i = 0; i < kCount; ++i) at[i] = x + 3 * i * pitch;
  }
  HWY_INLINE const float* Of(size_t pixel, size_t pitch) const {
    return at[pixel / 3] + pixel % 3 * pitch;
  }
  HWY_INLINE void Advance() { LAGOON_UNROLL for (size_t i = 0; i < kCount; ++i)++ at[i]; }
};

template <size_t kPixels>
HWY_INLINE void StoreSums(const Segment& s, const V (&sums)[kPixels]) {
  if (!s.last) {
    LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
      simd::Whole::Store(sums[p], s.sums + p * simd::Lanes());
    }
    return;
  }
  const V low = hn::Set(D(), s.limits.low), high = hn::Set(D(), s.limits.high);
  if (s.y_count == simd::Lanes()) {
    LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
      simd::Whole::Store(simd::Clamp(sums[p], low, high), s.y + p * s.y_pixel);
    }
  } else {
    const simd::Part part(s.y_count);
    LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
      part.Store(simd::Clamp(sums[p], low, high), s.y + p * s.y_pixel);
    }
  }
}

/// Adds one filter column. kSeveral: every lane reads the channel of its own group; otherwise all
/// lanes read the same channel.
template <bool kSeveral, size_t kPixels>
HWY_INLINE void AddTap(const Segment& s, const float* x, const float* weights, V (&sums)[kPixels]) {
  const size_t lanes = simd::Lanes();
  PixelPointers<kPixels> pixels(x, s.pixel);
  for (size_t i = s.piece.begin; i < s.piece.end; ++i, weights += lanes) {
    const V w = simd::Whole::Load(weights);
    if constexpr (kSeveral) {
      const auto from = hn::SetTableIndices(D(), s.lanes + i * lanes);
      LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
        const V v = simd::Whole::Load(pixels.Of(p, s.pixel));
        sums[p] = hn::MulAdd(hn::TableLookupLanes(v, from), w, sums[p]);
      }
    } else {
      LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
        sums[p] = hn::MulAdd(hn::Set(D(), *pixels.Of(p, s.pixel)), w, sums[p]);
      }
      pixels.Advance();
    }
  }
}

/// Adds a filter row of three columns side by side at stride 1: what is read of the input once,
/// each lane for its own group, serves three outputs. `x`: the first pixel's first column.
template <bool kSeveral, size_t kPixels>
HWY_INLINE void AddRow(const Segment& s, const float* x, const float* weights, V (&sums)[kPixels]) {
  constexpr size_t kTaps = 3, kReach = kPixels + kTaps - 1;
  const size_t lanes = simd::Lanes();
  PixelPointers<kReach> columns(x, s.column);
  for (size_t i = s.piece.begin; i < s.piece.end; ++i, weights += lanes) {
    V w[kTaps];
    LAGOON_UNROLL for (size_t tap = 0; tap < kTaps; ++tap) {
      w[tap] = simd::Whole::Load(weights + tap * s.depth * lanes);
    }
    LAGOON_UNROLL for (size_t column = 0; column < kReach; ++column) {
      const float* const at = columns.Of(column, s.column);
      V v;
      if constexpr (kSeveral) {
        v = hn::TableLookupLanes(simd::Whole::Load(at),
                                 hn::SetTableIndices(D(), s.lanes + i * lanes));
      } else {
        v = hn::Set(D(), *at);
      }
      LAGOON_UNROLL for (size_t tap = 0; tap < kTaps; ++tap) {
        const size_t p = column - tap;  // wraps where no output reads the column by this tap
        if (p < kPixels) sums[p] = hn::MulAdd(v, w[tap], sums[p]);
      }
    }
    if constexpr (!kSeveral) columns.Advance();
  }
}

/// kRows: by AddRow(), else by AddTap().
template <bool kSeveral, bool kRows, size_t kPixels>
void Multiply(const Segment& s) {
  const size_t lanes = simd::Lanes();
  V sums[kPixels];
  LAGOON_UNROLL for (size_t p = 0; p < kPixels; ++p) {
    sums[p] = simd::Whole::Load(s.sums + p * lanes);
  }
  const float* row_weights = s.weights + s.piece.begin * lanes;
  for (size_t row = 0; row < s.rows; ++row) {
    const float* x = s.x + row * s.row + (kSeveral ? 0 : s.piece.begin);
    if constexpr (kRows) {
      AddRow<kSeveral, kPixels>(s, x, row_weights, sums);
    } else {
      const float* weights = row_weights;
      for (size_t column = 0; column < s.columns; ++column, x += s.column) {
        AddTap<kSeveral, kPixels>(s, x, weights, sums);
        weights += s.depth * lanes;
      }
    }
    row_weights += s.weights_row;
  }
  StoreSums<kPixels>(s, sums);
}

using MultiplyFunction = void (*)(const Segment&);

template <bool kSeveral, bool kRows, size_t... kIndices>
constexpr std::array<MultiplyFunction, sizeof...(kIndices)> MultiplyTable(
    std::index_sequence<kIndices...>) {
  return {&Multiply<kSeveral, kRows, kIndices + 1>...};
}

HWY_INLINE MultiplyFunction PickMultiply(const ImageWindow& w, bool several, size_t pixels) {
  // AddRow() adds to each sum three times in a row, and few pixels would wait for themselves. By
  // the width of the image, so that all versions add in the same order.
  constexpr size_t kEnoughPixels = 9;
  const bool rows = w.kernel_w == 3 && w.dilation_w == 1 && w.stride_w == 1 &&
                    (several || w.out_width >= kEnoughPixels);
  using Indices = std::make_index_sequence<kPixelsAtOnce>;
  static constexpr std::array kTables = {
      MultiplyTable<false, false>(Indices()), MultiplyTable<false, true>(Indices()),
      MultiplyTable<true, false>(Indices()), MultiplyTable<true, true>(Indices())};
  return kTables[(several ? 2 : 0) + (rows ? 1 : 0)][pixels - 1];
}

/// The input of a tile and a panel.
class Patch {
 public:
  Patch(const GroupedConvArgs& args, const GroupedTile& tile, float* memory)
      : args_(args), memory_(memory), slot_(PatchSlot(args.spec, args.panels)) {
    const GroupedConvSpec& spec = args.spec;
    const ImageWindow& w = spec.window;
    const auto height = static_cast<ptrdiff_t>(w.height);
    const ptrdiff_t first_row = Origin(tile.rows.begin, w.stride_h, w.pad_top);
    const size_t rows = ReachOf(tile.rows.size(), w.stride_h, w.kernel_h, w.dilation_h);
    first_row_ = std::clamp<ptrdiff_t>(first_row, 0, height);
    end_row_ = std::clamp<ptrdiff_t>(first_row + static_cast<ptrdiff_t>(rows), first_row_, height);
    column_ = Origin(tile.columns.begin, w.stride_w, w.pad_left);
    columns_ = ReachOf(tile.columns.size(), w.stride_w, w.kernel_w, w.dilation_w);
    image_ = args.x + tile.image * w.height * w.width * spec.in_channels;
  }

  /// Copies the panel's input channels. Checks `ctx`, unless null, after every row. False: leave.
  bool Fill(Range channels, BlockContext* ctx) {
    float* to = memory_;
    for (ptrdiff_t row = first_row_; row < end_row_; ++row, to += columns_ * slot_) {
      FillRow(image_ + static_cast<size_t>(row) * args_.spec.window.width * args_.spec.in_channels,
              channels, to);
      if (ctx != nullptr && ctx->ShouldLeave()) return false;
    }
    return true;
  }

  /// Row `row` of the image, column `column` of the tile's input.
  const float* At(size_t row, size_t column) const {
    const size_t from_first = row - static_cast<size_t>(first_row_);
    return memory_ + (from_first * columns_ + column) * slot_;
  }
  size_t slot() const { return slot_; }
  size_t row() const { return columns_ * slot_; }

 private:
  static ptrdiff_t Origin(size_t output, size_t stride, size_t pad) {
    return static_cast<ptrdiff_t>(output * stride) - static_cast<ptrdiff_t>(pad);
  }

  HWY_INLINE void FillRow(const float* x, Range channels, float* to) const {
    const auto width = static_cast<ptrdiff_t>(args_.spec.window.width);
    const ptrdiff_t end = column_ + static_cast<ptrdiff_t>(columns_);
    const ptrdiff_t begin_inside = std::clamp<ptrdiff_t>(0, column_, end);
    const ptrdiff_t end_inside = std::clamp<ptrdiff_t>(width, begin_inside, end);
    simd::Fill(0, static_cast<size_t>(begin_inside - column_) * slot_, to);
    to += static_cast<size_t>(begin_inside - column_) * slot_;
    const auto inside = static_cast<size_t>(end_inside - begin_inside);
    if (inside > 0) {
      CopyPixels(x + static_cast<size_t>(begin_inside) * args_.spec.in_channels + channels.begin,
                 inside, channels.size(), to);
    }
    simd::Fill(0, static_cast<size_t>(end - end_inside) * slot_, to + inside * slot_);
  }

  HWY_INLINE void CopyPixels(const float* x, size_t pixels, size_t channels, float* to) const {
    const size_t pitch = args_.spec.in_channels;
    const size_t lanes = simd::Lanes();
    if (channels > lanes) {
      for (size_t p = 0; p < pixels; ++p) simd::Copy(x + p * pitch, channels, to + p * slot_);
    } else if (channels == lanes) {
      for (size_t p = 0; p < pixels; ++p) {
        simd::Whole::Store(simd::Whole::Load(x + p * pitch), to + p * slot_);
      }
    } else {
      const simd::Part part(channels);
      for (size_t p = 0; p < pixels; ++p) part.Store(part.Load(x + p * pitch), to + p * slot_);
    }
  }

  const GroupedConvArgs& args_;
  float* memory_;
  size_t slot_;
  const float* image_ = nullptr;
  ptrdiff_t first_row_ = 0, end_row_ = 0;  // rows of the image
  ptrdiff_t column_ = 0;                   // column of the image; may be padding
  size_t columns_ = 0;
};

/// Computes one block.
class GroupedRunner {
 public:
  /// `ctx`: null if the block has several panels. Such a block writes y as it goes, and so it must
  /// not leave.
  GroupedRunner(const GroupedConvArgs& args, const GroupedTile& tile, float* memory,
                BlockContext* ctx)
      : args_(args),
        spec_(args.spec),
        tile_(tile),
        ctx_(ctx),
        sums_(memory),
        patch_(args, tile, memory + tile.rows.size() * tile.columns.size() * simd::Lanes()) {
    if (args.panels.several()) FillLanes();
  }

  /// Returns false if the block left.
  bool Panel(size_t panel) {
    channels_ = ChannelsOf(spec_, args_.panels, panel);
    const size_t depth = spec_.in_channels / spec_.groups;
    const size_t floats = WindowTaps(spec_.window) * depth * simd::Lanes();
    weights_ = args_.weights + panel * floats;
    FillSums();
    if (!patch_.Fill(channels_.in, ctx_)) return false;
    const size_t segments = CeilDivide(tile_.columns.size(), kPixelsAtOnce);
    for (size_t i = 0; i < args_.pieces(); ++i) {
      if (i > 0 && ctx_ != nullptr && ctx_->ShouldLeave()) return false;
      const GroupedPiece piece = PieceOf(args_, i);
      for (size_t row = tile_.rows.begin; row < tile_.rows.end; ++row) {
        for (size_t part = 0; part < segments; ++part) {
          Add(piece, i + 1 == args_.pieces(), row, Share(tile_.columns.size(), segments, part));
        }
      }
    }
    return true;
  }

 private:
  void FillLanes() {
    const size_t in = spec_.in_channels / spec_.groups, out = spec_.out_channels / spec_.groups;
    const size_t lanes = simd::Lanes();
    for (size_t lane = 0; lane < lanes; ++lane) {
      const size_t group = std::min<size_t>(lane / out, args_.panels.groups - 1);
      for (size_t i = 0; i < in; ++i)
        lanes_[i * lanes + lane] = static_cast<int32_t>(group * in + i);
    }
  }

  /// The initial values of the sums.
  void FillSums() {
    const size_t lanes = simd::Lanes();
    HWY_ALIGN float start[kLanes] = {};
    if (args_.bias != nullptr) {
      std::copy_n(args_.bias + channels_.out.begin, channels_.out.size(), start);
    }
    const V first = simd::Whole::Load(start);
    for (size_t i = 0; i < tile_.rows.size() * tile_.columns.size(); ++i) {
      simd::Whole::Store(first, sums_ + i * lanes);
    }
  }

  /// The filter columns of `all` by which any of the pixels `columns` reads the image.
  Range Inside(Range all, Range columns) const {
    const ImageWindow& w = spec_.window;
    const auto pad = static_cast<ptrdiff_t>(w.pad_left);
    const auto step = static_cast<ptrdiff_t>(w.dilation_w);
    const auto at = [&](size_t column) {
      return static_cast<ptrdiff_t>((tile_.columns.begin + column) * w.stride_w) - pad;
    };
    // Up to the first filter column, the last pixel still reads left of the image.
    const ptrdiff_t before = std::max<ptrdiff_t>(0, -at(columns.end - 1));
    const ptrdiff_t behind =
        std::max<ptrdiff_t>(0, static_cast<ptrdiff_t>(w.width) - at(columns.begin));
    const size_t first = static_cast<size_t>((before + step - 1) / step);
    const size_t end = static_cast<size_t>((behind + step - 1) / step);
    const size_t begin = std::clamp(first, all.begin, all.end);
    return {begin, std::clamp(end, begin, all.end)};
  }

  /// Adds a piece to the pixels `columns` (counted from the tile's first column) of an output row.
  /// `last`: they are complete then.
  void Add(const GroupedPiece& piece, bool last, size_t row, Range columns) {
    const ImageWindow& w = spec_.window;
    const AxisTaps taps = TapsOf(RowAxis(w), row);
    const size_t pixels = columns.size();
    // The filter rows of the piece that meet the image.
    const size_t first = std::max(piece.rows.begin, taps.first);
    const size_t end = std::min(piece.rows.end, taps.first + taps.count);
    const Range filter = w.kernel_w > 3 ? Inside(piece.columns, columns) : piece.columns;
    Segment s;
    s.rows = first < end && filter.size() > 0 ? end - first : 0;
    s.columns = filter.size();
    s.depth = spec_.in_channels / spec_.groups;
    s.piece = piece.depth;
    s.weights_row = w.kernel_w * s.depth * simd::Lanes();
    s.column = w.dilation_w * patch_.slot();
    if (s.rows > 0) {
      s.x = patch_.At(taps.start(w.dilation_h) + (first - taps.first) * w.dilation_h,
                      columns.begin * w.stride_w) +
            filter.begin * s.column;
      s.weights = weights_ + first * s.weights_row + filter.begin * s.depth * simd::Lanes();
    }
    s.pixel = w.stride_w * patch_.slot();
    s.row = w.dilation_h * patch_.row();
    s.lanes = lanes_;
    s.sums =
        sums_ + ((row - tile_.rows.begin) * tile_.columns.size() + columns.begin) * simd::Lanes();
    s.last = last;
    s.limits = args_.limits;
    s.y_pixel = spec_.out_channels;
    s.y_count = channels_.out.size();
    const size_t out_row = (tile_.image * w.out_height + row) * w.out_width;
    s.y =
        args_.y + (out_row + tile_.columns.begin + columns.begin) * s.y_pixel + channels_.out.begin;
    PickMultiply(w, args_.panels.several(), pixels)(s);
    if (last && args_.finish.row != nullptr) {
      for (size_t p = 0; p < pixels; ++p) args_.finish(s.y + p * s.y_pixel, nullptr, s.y_count);
    }
  }

  const GroupedConvArgs& args_;
  const GroupedConvSpec& spec_;
  const GroupedTile& tile_;
  BlockContext* ctx_;
  float* sums_;  // [row][column][lane] of the tile
  Patch patch_;
  PanelChannels channels_;
  const float* weights_ = nullptr;  // weights of the panel
  static constexpr size_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN int32_t lanes_[kLanes * kLanes];  // several groups: at most lanes / 2 channels each
};

bool GroupedConvBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const GroupedConvArgs*>(raw);
  const GroupedTile tile = TileOf(args, block);
  auto* const memory = reinterpret_cast<float*>(ctx.scratch().data());
  GroupedRunner runner(args, tile, memory, tile.panels.size() == 1 ? &ctx : nullptr);
  for (size_t panel = tile.panels.begin; panel < tile.panels.end; ++panel) {
    if (!runner.Panel(panel)) return false;
  }
  return true;
}

}  // namespace

GroupedConvTarget PickGroupedConv() {
  return {simd::kLevel, &GroupedConvBody, static_cast<std::uint32_t>(simd::Lanes()), kPixelsAtOnce};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_GROUPED_CONV_INL_H_
