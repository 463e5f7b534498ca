// One block of conv2d, once per Highway target. Include after foreach_target.h.

#if defined(LAGOON_KERNELS_CONV2D_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_CONV2D_BLOCK_INL_H_
#undef LAGOON_KERNELS_CONV2D_BLOCK_INL_H_
#else
#define LAGOON_KERNELS_CONV2D_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "kernels/conv2d_args.h"
#include "kernels/conv2d_body.h"
#include "kernels/conv2d_micro-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace conv {

/// Padding that is read, and the bias of a kernel without one.
alignas(64) inline constexpr float kZeros[kMaxEdgeChannels] = {};

/// Walks the micro-tiles of a block: segments within rows within panels.
struct Cursor {
  const ConvTile& tile;
  std::size_t panel, row, segment, item;

  Cursor(const ConvTile& t, std::size_t begin) : tile(t), item(begin) {
    segment = tile.segments.begin + begin % tile.segments.size();
    begin /= tile.segments.size();
    row = tile.rows.begin + begin % tile.rows.size();
    panel = tile.panels.begin + begin / tile.rows.size();
  }
  void Next() {
    ++item;
    if (++segment < tile.segments.end) return;
    segment = tile.segments.begin;
    if (++row < tile.rows.end) return;
    row = tile.rows.begin;
    ++panel;
  }
};

/// The run of one block. Steps of the depth are chunks; each visits all micro-tiles, so that a
/// chunk of weights is used by all of them while it is in the cache.
class ConvBlock {
 public:
  ConvBlock(const Conv2dArgs& args, std::uint32_t block, BlockContext& ctx)
      : args_(args), tile_(TileOf(args, block)), scratch_(ctx.scratch().data()) {}

  bool Run(BlockContext& ctx) {
    ReadInput();
    const std::size_t items = tile_.items();
    const std::size_t direct = std::min<std::size_t>(items, args_.direct_items);
    for (std::uint32_t chunk = 0; chunk < args_.chunks; ++chunk) {
      const bool last = chunk + 1 == args_.chunks;
      const std::size_t end = last ? items - direct : items;
      for (Cursor at(tile_, 0); at.item < end; at.Next()) {
        if (ctx.ShouldLeave()) return false;
        Accumulate(at, chunk, /*finish=*/false);
      }
    }
    if (ctx.ShouldLeave()) return false;
    // The first visible write: from here to the end without a check.
    for (Cursor at(tile_, 0); at.item < items - direct; at.Next()) StoreItem(at);
    for (Cursor at(tile_, items - direct); at.item < items; at.Next()) {
      Accumulate(at, args_.chunks - 1, /*finish=*/true);
    }
    return true;
  }

 private:
  // Pixels [first, first + rows) of an output row.
  struct Pixels {
    std::size_t first, rows;
  };
  // Kernel rows that lie inside the image, and where they read.
  struct KernelRows {
    std::uint32_t begin, end;
    std::int64_t y;  // image row of kernel row 0; may be negative
  };
  // A part of the depth: taps [tap, tap + taps), floats [begin, begin + depth) of each.
  struct Chunk {
    std::uint32_t tap, taps, begin, depth;
  };

  Pixels PixelsOf(std::size_t segment) const {
    const Range range = Share(args_.out_width, args_.segments, segment);
    return {range.begin, range.size()};
  }

  KernelRows KernelRowsOf(std::size_t out_row) const {
    const std::int64_t y = static_cast<std::int64_t>(out_row) * args_.stride_h - args_.pad_top;
    const std::int64_t step = args_.dilation_h, height = args_.height;
    KernelRows rows{0, args_.kernel_h, y};
    if (y < 0)
      rows.begin =
          static_cast<std::uint32_t>(std::min<std::int64_t>((step - 1 - y) / step, rows.end));
    if (y + (rows.end - 1) * step >= height) {
      const std::int64_t inside = y < height ? (height - y + step - 1) / step : 0;
      rows.end = static_cast<std::uint32_t>(std::max<std::int64_t>(inside, rows.begin));
    }
    return rows;
  }

  Chunk ChunkOf(std::uint32_t index) const {
    if (args_.tap_pieces > 1) {
      const Range piece = Share(args_.tap_depth, args_.tap_pieces, index % args_.tap_pieces);
      return {index / args_.tap_pieces, 1, static_cast<std::uint32_t>(piece.begin),
              static_cast<std::uint32_t>(piece.size())};
    }
    const std::uint32_t tap = index * args_.chunk_taps;
    return {tap, std::min(args_.chunk_taps, args_.kernel_h * args_.taps_w - tap), 0,
            args_.tap_depth};
  }

  // Image column of kernel column 0 for an output pixel; may be negative.
  std::int64_t ColumnOf(std::size_t pixel) const {
    return static_cast<std::int64_t>(pixel) * args_.stride_w - args_.pad_left;
  }

  void ReadInput();
  void CopyPatchRow(const float* image_row, std::int64_t column, std::size_t columns,
                    float* to) const;
  std::uint32_t PaddingMask(std::size_t pixel) const;
  void Accumulate(const Cursor& at, std::uint32_t chunk_index, bool finish);
  ConvStore StoreOf(const Cursor& at, const Pixels& pixels) const;
  void StoreItem(const Cursor& at);

  std::uint32_t Width(std::size_t panel) const {
    return PanelWidth(hn::MaxLanes(D()), args_.out_channels, panel);
  }
  float* Acc(const Cursor& at) const {
    return reinterpret_cast<float*>(scratch_) + at.item * args_.item_floats;
  }

  const Conv2dArgs& args_;
  const ConvTile tile_;
  std::byte* const scratch_;
  // The input is read at (row, column): origin_ + (row - first_row_) * row_pitch_ + (column -
  // first_column_) * channels.
  const float* origin_ = nullptr;
  std::int64_t row_pitch_ = 0, first_row_ = 0, first_column_ = 0;
};

void ConvBlock::ReadInput() {
  const std::int64_t channels = args_.channels;
  const float* image =
      args_.x + static_cast<std::size_t>(tile_.image) * args_.height * args_.width * args_.channels;
  origin_ = image;
  row_pitch_ = args_.width * channels;
  if (args_.input != ConvInput::kPatch) return;

  const KernelRows top = KernelRowsOf(tile_.rows.begin), bottom = KernelRowsOf(tile_.rows.end - 1);
  const std::int64_t height = args_.height, step = args_.dilation_h;
  const std::int64_t end_row = std::min(height, bottom.y + (args_.kernel_h - 1) * step + 1);
  first_row_ = std::max<std::int64_t>(0, top.y);
  const Pixels first = PixelsOf(tile_.segments.begin), last = PixelsOf(tile_.segments.end - 1);
  first_column_ = ColumnOf(first.first);
  const std::size_t columns =
      static_cast<std::size_t>(ColumnOf(last.first + last.rows - 1) - first_column_) +
      std::size_t{args_.kernel_w - 1} * args_.dilation_w + 1;
  float* patch = reinterpret_cast<float*>(scratch_ + args_.patch_offset);
  const float* row = image + first_row_ * row_pitch_;
  origin_ = patch;
  for (std::int64_t y = first_row_; y < end_row; ++y) {
    CopyPatchRow(row, first_column_, columns, patch);
    row += row_pitch_;
    patch += columns * args_.channels;
  }
  row_pitch_ = static_cast<std::int64_t>(columns) * channels;
}

void ConvBlock::CopyPatchRow(const float* image_row, std::int64_t column, std::size_t columns,
                             float* to) const {
  const auto width = static_cast<std::int64_t>(args_.width);
  const std::int64_t end = column + static_cast<std::int64_t>(columns);
  const std::int64_t begin_inside = std::clamp<std::int64_t>(0, column, end);
  const std::int64_t end_inside = std::clamp<std::int64_t>(width, begin_inside, end);
  const std::size_t channels = args_.channels;
  const std::size_t before = static_cast<std::size_t>(begin_inside - column) * channels;
  const std::size_t inside = static_cast<std::size_t>(end_inside - begin_inside) * channels;
  simd::Fill(0, before, to);
  if (inside > 0)
    simd::Copy(image_row + begin_inside * static_cast<std::int64_t>(channels), inside, to + before);
  simd::Fill(0, columns * channels - before - inside, to + before + inside);
}

std::uint32_t ConvBlock::PaddingMask(std::size_t pixel) const {
  std::uint32_t mask = 0;
  std::int64_t column = ColumnOf(pixel);
  for (std::uint32_t tap = 0; tap < args_.taps_w; ++tap, column += args_.dilation_w) {
    const bool padding = column < 0 || column >= static_cast<std::int64_t>(args_.width);
    mask |= static_cast<std::uint32_t>(padding) << tap;
  }
  return mask;
}

void ConvBlock::Accumulate(const Cursor& at, std::uint32_t chunk_index, bool finish) {
  const KernelRows kernel_rows = KernelRowsOf(at.row);
  const Chunk chunk = ChunkOf(chunk_index);
  const std::uint32_t first_tap = kernel_rows.begin * args_.taps_w,
                      end_tap = kernel_rows.end * args_.taps_w;
  const std::uint32_t begin = std::clamp(chunk.tap, first_tap, end_tap);
  const std::uint32_t end = std::clamp(chunk.tap + chunk.taps, begin, end_tap);
  const bool nothing_yet =
      first_tap == end_tap || chunk.tap < first_tap || (chunk.tap == first_tap && chunk.begin == 0);
  // All the chunk's kernel rows are padding.
  if (begin == end && chunk_index + 1 != args_.chunks) return;

  const Pixels pixels = PixelsOf(at.segment);
  const std::uint32_t width = Width(at.panel);
  const std::int64_t channels = args_.channels;
  const std::uint32_t kernel_row = begin / args_.taps_w, column = begin % args_.taps_w;
  const std::int64_t y = kernel_rows.y + std::int64_t{kernel_row} * args_.dilation_h;
  const std::int64_t x = ColumnOf(pixels.first) + std::int64_t{column} * args_.dilation_w;
  const std::int64_t offset =
      (y - first_row_) * row_pitch_ + (x - first_column_) * channels + chunk.begin;

  MicroTile micro;
  micro.a = reinterpret_cast<const std::byte*>(origin_) +
            offset * static_cast<std::int64_t>(sizeof(float));
  micro.pitch = std::size_t{args_.stride_w} * args_.channels * sizeof(float);
  micro.weights = args_.weights + at.panel * args_.depth * (2 * hn::MaxLanes(D())) +
                  (std::size_t{begin} * args_.tap_depth + chunk.begin) * width;
  micro.taps = end - begin;
  micro.tap_depth = chunk.depth;
  micro.column = column;
  micro.columns = args_.taps_w;
  micro.next_column = args_.dilation_w * channels * static_cast<std::int64_t>(sizeof(float));
  micro.next_row = args_.dilation_h * row_pitch_ * static_cast<std::int64_t>(sizeof(float)) -
                   (args_.taps_w - 1) * micro.next_column;
  const bool edge = args_.input == ConvInput::kEdge;
  micro.zero_first = edge && at.segment == 0 ? PaddingMask(0) : 0;
  micro.zero_last = edge && at.segment + 1 == args_.segments ? PaddingMask(args_.out_width - 1) : 0;
  micro.zeros = reinterpret_cast<const std::byte*>(kZeros);
  micro.acc = Acc(at);
  micro.resume = !nothing_yet;

  const std::size_t vectors = width / hn::MaxLanes(D());
  const ConvStore store = StoreOf(at, pixels);
  const bool whole = at.panel * 2 * hn::MaxLanes(D()) + width <= args_.out_channels;
  micro.store = finish && whole ? &store : nullptr;
  kMultiply[vectors - 1][pixels.rows - 1](micro);
  if (finish && !whole) StoreItem(at);
}

ConvStore ConvBlock::StoreOf(const Cursor& at, const Pixels& pixels) const {
  const std::size_t channel = at.panel * 2 * hn::MaxLanes(D());
  const std::size_t row = std::size_t{tile_.image} * args_.out_height + at.row;
  const std::size_t offset = (row * args_.out_width + pixels.first) * args_.out_channels + channel;
  return {.y = args_.y + offset,
          .bias = args_.bias != nullptr ? args_.bias + channel : kZeros,
          .residual = args_.residual != nullptr ? args_.residual + offset : nullptr,
          .pitch = args_.out_channels,
          .low = args_.low,
          .high = args_.high};
}

void ConvBlock::StoreItem(const Cursor& at) {
  const Pixels pixels = PixelsOf(at.segment);
  const std::size_t width = Width(at.panel);
  const std::size_t channel = at.panel * 2 * hn::MaxLanes(D());
  const std::size_t columns = std::min<std::size_t>(width, args_.out_channels - channel);
  StoreRows(Acc(at), pixels.rows, width / hn::MaxLanes(D()), columns, StoreOf(at, pixels));
}

/// kernels/conv2d.h; arguments: Conv2dArgs.
bool Conv2dBody(const void* args, std::uint32_t block, BlockContext& ctx) {
  return ConvBlock(*static_cast<const Conv2dArgs*>(args), block, ctx).Run(ctx);
}

}  // namespace conv
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_CONV2D_BLOCK_INL_H_
