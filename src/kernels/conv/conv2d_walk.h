#pragma once

// How a block walks its micro-tiles, and the part of the input and of the depth that each one
// reads.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/conv/conv2d_args.h"

namespace lagoon {

/// Walks the micro-tiles of a block: panels innermost or outermost, segments within rows.
class Cursor {
 public:
  Cursor(const ConvTile& tile, bool panels_inner, std::size_t begin)
      : item(begin), tile_(tile), panels_inner_(panels_inner) {
    const std::size_t places = tile.rows.size() * tile.segments.size();
    const std::size_t panels = tile.panels.size();
    panel = tile.panels.begin + (panels_inner ? begin % panels : begin / places);
    place = panels_inner ? begin / panels : begin % places;
    row = tile.rows.begin + place / tile.segments.size();
    segment = tile.segments.begin + place % tile.segments.size();
  }
  void Next() {
    ++item;
    if (panels_inner_) {
      if (++panel < tile_.panels.end) return;
      panel = tile_.panels.begin;
      NextPlace();
    } else {
      NextPlace();
      if (row < tile_.rows.end) return;
      row = tile_.rows.begin;
      place = 0;
      ++panel;
    }
  }
  /// As Next(), called `count` times. Only with panels innermost, and only within one segment.
  void Advance(std::size_t count) {
    if (count == 0) return;
    item += count - 1;
    panel += count - 1;
    Next();
  }
  /// Skips the micro-tiles of `count` segments of a row. Only with panels innermost.
  void SkipSegments(std::size_t count) {
    item += count * tile_.panels.size();
    place += count - 1;
    segment += count - 1;
    NextPlace();
  }
  void NextPlace() {
    ++place;
    if (++segment < tile_.segments.end) return;
    segment = tile_.segments.begin;
    ++row;
  }

  std::size_t item, panel;
  std::size_t place;  // index among the tile's segments, over all its rows
  std::size_t row, segment;

 private:
  const ConvTile& tile_;
  bool panels_inner_;
};

/// The kernel rows that lie inside the image for one output row. `y`: image row of kernel row 0,
/// may be negative.
struct KernelRows {
  std::uint32_t begin, end;
  std::int64_t y;
};

inline KernelRows KernelRowsOf(const Conv2dArgs& args, std::size_t out_row) {
  const ImageWindow& w = args.window;
  const std::int64_t y = static_cast<std::int64_t>(out_row) * w.stride_h - w.pad_top;
  const std::int64_t step = w.dilation_h, height = w.height;
  KernelRows rows{0, w.kernel_h, y};
  if (y < 0) {
    const std::int64_t above = (step - 1 - y) / step;
    rows.begin = static_cast<std::uint32_t>(std::min<std::int64_t>(above, rows.end));
  }
  if (y + (rows.end - 1) * step >= height) {
    const std::int64_t inside = y < height ? (height - y + step - 1) / step : 0;
    rows.end = static_cast<std::uint32_t>(std::max<std::int64_t>(inside, rows.begin));
  }
  return rows;
}

/// Image column of kernel column 0 for an output pixel; may be negative.
inline std::int64_t ColumnOf(const Conv2dArgs& args, std::size_t pixel) {
  return static_cast<std::int64_t>(pixel) * args.window.stride_w - args.window.pad_left;
}

/// A part of the depth: `taps` taps from tap number `tap` on, which lies at kernel row `row` and
/// column `column`. Covers the floats [begin, begin + depth) of each tap.
struct Chunk {
  std::uint32_t tap, taps, row, column, begin, depth;
  bool last;
};

inline Chunk ChunkOf(const Conv2dArgs& args, std::uint32_t index) {
  Chunk chunk{};
  chunk.last = index + 1 == args.chunks;
  if (args.tap_pieces > 1) {
    const Range piece = Share(args.tap_depth, args.tap_pieces, index % args.tap_pieces);
    chunk.tap = index / args.tap_pieces;
    chunk.taps = 1;
    chunk.begin = static_cast<std::uint32_t>(piece.begin);
    chunk.depth = static_cast<std::uint32_t>(piece.size());
  } else {
    chunk.tap = index * args.chunk_taps;
    chunk.taps = std::min(args.chunk_taps, args.window.kernel_h * args.taps_w - chunk.tap);
    chunk.depth = args.tap_depth;
  }
  chunk.row = chunk.tap / args.taps_w;
  chunk.column = chunk.tap % args.taps_w;
  return chunk;
}

/// Where a tile reads its input: in x, or in a copy of the part that the tile needs.
struct InputView {
  const float* origin;  // pixel (first_row, first_column)
  std::int64_t first_row, first_column;
  std::int64_t row_pitch;  // floats

  const std::byte* At(std::int64_t row, std::int64_t column, std::int64_t channels) const {
    const std::int64_t floats = (row - first_row) * row_pitch + (column - first_column) * channels;
    return reinterpret_cast<const std::byte*>(origin) + floats * std::int64_t{sizeof(float)};
  }
};

/// Copies `columns` pixels from `column` on. Pixels outside the image become zero.
inline void CopyPatchRow(const Conv2dArgs& args, const float* image_row, std::int64_t column,
                         std::size_t columns, float* to) {
  const std::int64_t end = column + static_cast<std::int64_t>(columns);
  const std::int64_t begin_inside = std::clamp<std::int64_t>(0, column, end);
  const std::int64_t end_inside = std::clamp<std::int64_t>(args.window.width, begin_inside, end);
  const std::size_t channels = args.channels;
  const std::size_t before = static_cast<std::size_t>(begin_inside - column) * channels;
  const std::size_t inside = static_cast<std::size_t>(end_inside - begin_inside) * channels;
  std::fill_n(to, before, 0.0f);
  if (inside > 0) {
    std::copy_n(image_row + begin_inside * std::int64_t{args.channels}, inside, to + before);
  }
  std::fill_n(to + before + inside, columns * channels - before - inside, 0.0f);
}

inline InputView CopyPatch(const Conv2dArgs& args, const ConvTile& tile, const float* image,
                           float* patch) {
  const ImageWindow& w = args.window;
  const KernelRows top = KernelRowsOf(args, tile.rows.begin);
  const KernelRows bottom = KernelRowsOf(args, tile.rows.end - 1);
  const std::int64_t reach = std::int64_t{w.kernel_h - 1} * w.dilation_h + 1;
  const std::int64_t end_row = std::min<std::int64_t>(w.height, bottom.y + reach);
  const Pixels first = PixelsOf(args, static_cast<std::uint32_t>(tile.segments.begin));
  const Pixels last = PixelsOf(args, static_cast<std::uint32_t>(tile.segments.end - 1));
  const std::int64_t first_column = ColumnOf(args, first.first);
  const std::int64_t last_column = ColumnOf(args, last.first + last.count - 1);
  const std::int64_t columns =
      last_column - first_column + std::int64_t{w.kernel_w - 1} * w.dilation_w + 1;
  const InputView view{patch, std::max<std::int64_t>(0, top.y), first_column,
                       columns * args.channels};
  const std::int64_t image_pitch = std::int64_t{w.width} * args.channels;
  for (std::int64_t y = view.first_row; y < end_row; ++y) {
    CopyPatchRow(args, image + y * image_pitch, first_column, static_cast<std::size_t>(columns),
                 patch);
    patch += view.row_pitch;
  }
  return view;
}

/// Bit c: `pixel` reads padding at kernel column c.
inline std::uint32_t PaddingMask(const Conv2dArgs& args, std::size_t pixel) {
  std::uint32_t mask = 0;
  std::int64_t column = ColumnOf(args, pixel);
  for (std::uint32_t tap = 0; tap < args.taps_w; ++tap, column += args.window.dilation_w) {
    const bool padding = column < 0 || column >= std::int64_t{args.window.width};
    mask |= static_cast<std::uint32_t>(padding) << tap;
  }
  return mask;
}

}  // namespace lagoon
