// One block of byte_conv.

#include <algorithm>
#include <cstring>

#include "kernels/conv/int8/byte_conv_args.h"
#include "kernels/conv/int8/byte_strips.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

/// An output pixel: its image, and the input pixel of its first tap, which may be padding.
struct PixelPlace {
  std::size_t image, out_row, out_column;
  std::ptrdiff_t row, column;

  PixelPlace(const ImageWindow& window, std::size_t pixel)
      : image(pixel / window.out_width / window.out_height),
        out_row(pixel / window.out_width % window.out_height),
        out_column(pixel % window.out_width) {
    PointToInput(window);
  }

  void Next(const ImageWindow& window) {
    column += window.stride_w;
    if (++out_column < window.out_width) return;
    out_column = 0;
    if (++out_row == window.out_height) {
      out_row = 0;
      ++image;
    }
    PointToInput(window);
  }

 private:
  void PointToInput(const ImageWindow& window) {
    row = static_cast<std::ptrdiff_t>(out_row * window.stride_h) -
          static_cast<std::ptrdiff_t>(window.pad_top);
    column = static_cast<std::ptrdiff_t>(out_column * window.stride_w) -
             static_cast<std::ptrdiff_t>(window.pad_left);
  }
};

constexpr std::size_t kLine = 64;  // of the cache

class ByteBlock {
 public:
  ByteBlock(const ByteConvArgs& args, std::uint32_t block, BlockContext& ctx)
      : args_(args),
        ctx_(ctx),
        unit_(*args.unit),
        tile_(ByteTileOf(args, block)),
        first_(FirstPixel(args, tile_.groups.begin)),
        count_(FirstPixel(args, tile_.groups.end) - first_),
        first_column_(ByteColumnOf(args, tile_.panels.begin)),
        columns_(ByteColumnOf(args, tile_.panels.end - 1) + ColumnsOf(args, tile_.panels.end - 1) -
                 first_column_),
        element_(args.floats ? sizeof(float) : 1),
        depth_(WindowTaps(args.window) * args.channels),
        scratch_(ctx.scratch().data()),
        pointers_(reinterpret_cast<const std::uint8_t**>(scratch_ + args.pointers_offset)) {}

  bool Run() {
    if (ctx_.ShouldLeave()) return false;
    // What padding reads.
    std::memset(scratch_, args_.x_zero, args_.pointers_offset);
    for (std::size_t row = 0; row < args_.copies * args_.unit->rows; ++row) {
      std::memset(copies() + row * args_.pitch + depth_, 0, args_.pitch - depth_);
    }
    const bool in_place = args_.unit->even && args_.copies == 0;
    if (!(in_place ? MultiplyInPlace() : MultiplyWindows())) return false;
    if (ctx_.ShouldLeave()) return false;
    CopyResult();
    return true;
  }

 private:
  bool MultiplyWindows();
  bool MultiplyInPlace();
  bool MultiplyGroup(const ByteStrips& strips, std::size_t group, std::size_t panel);
  void Point(const PixelPlace& at, std::size_t pixel, std::size_t row);
  void PointToTaps(const PixelPlace& at, std::size_t row);
  void CopyAhead(std::size_t pixel);
  void CopyWindows(std::size_t pixel, std::size_t rows, std::uint8_t* to) const;
  std::size_t PixelsInside(const PixelPlace& at) const;
  void CopyColumns(const PixelPlace& at, std::size_t pixels, std::uint8_t* to) const;
  bool Multiply(std::size_t panel, std::size_t rows, std::size_t lower);
  void Store(std::size_t panel, std::size_t first_row, std::size_t rows, std::size_t pixel);
  void FetchResult(std::size_t pixel, std::size_t rows) const;
  void CopyResult() const;

  const std::uint8_t* PixelAt(std::size_t image, std::ptrdiff_t row, std::ptrdiff_t column) const {
    const ImageWindow& w = args_.window;
    return args_.x + ((static_cast<std::ptrdiff_t>(image) * w.height + row) * w.width + column) *
                         static_cast<std::ptrdiff_t>(args_.channels);
  }
  /// Of a group of all; behind the last, the number of pixels.
  static std::size_t FirstPixel(const ByteConvArgs& args, std::size_t group) {
    if (args.piece == 0) return std::min<std::size_t>(group * args.unit->rows, args.pixels);
    return ByteStrips::PixelOf(args, std::min(2 * group, ByteStrips::Halves(args)));
  }
  static std::size_t ColumnsOf(const ByteConvArgs& args, std::size_t panel) {
    return std::min<std::size_t>(kBytePanel,
                                 args.part_columns - panel % args.part_panels * kBytePanel);
  }
  std::uint8_t* copies() const {
    return reinterpret_cast<std::uint8_t*>(scratch_ + args_.copies_offset);
  }
  std::int32_t* sums() const {
    return reinterpret_cast<std::int32_t*>(scratch_ + args_.sums_offset);
  }
  template <typename T>
  const T* PerColumn(std::size_t offset, std::size_t panel) const {
    return reinterpret_cast<const T*>(args_.weights + offset) + panel * kBytePanel;
  }

  const ByteConvArgs& args_;
  BlockContext& ctx_;
  EnteredByteUnit unit_;
  const ByteConvTile tile_;
  const std::size_t first_, count_;  // pixels
  const std::size_t first_column_, columns_;
  const std::size_t element_;  // bytes of an element of y
  const std::size_t depth_;    // bytes of a pixel's window
  std::byte* const scratch_;
  const std::uint8_t** const pointers_;
};

bool ByteBlock::MultiplyWindows() {
  PixelPlace at(args_.window, first_);
  const std::size_t most = args_.unit->rows;
  for (std::size_t pixel = 0; pixel < count_; pixel += most) {
    const std::size_t rows = std::min(most, count_ - pixel);
    if (args_.copies > 0) {
      CopyAhead(pixel);
    } else {
      for (std::size_t row = 0; row < rows; ++row, at.Next(args_.window)) {
        Point(at, first_ + pixel + row, row);
      }
    }
    const std::size_t upper = args_.unit->even ? std::min(rows, kByteHalf) : rows;
    if (upper < rows) pointers_[1] = pointers_[kByteHalf];
    FetchResult(pixel, rows);
    for (std::size_t panel = tile_.panels.begin; panel < tile_.panels.end; ++panel) {
      if (!Multiply(panel, upper, rows - upper)) return false;
      Store(panel, 0, rows, pixel);
    }
  }
  return true;
}

// Of groups and panels, what is less is read again and again from the second cache, and the other
// once.
bool ByteBlock::MultiplyInPlace() {
  const Range parts{tile_.panels.begin / args_.part_panels,
                    (tile_.panels.end - 1) / args_.part_panels + 1};
  const ByteStrips strips(args_, tile_.groups, parts, copies());
  if (!strips.Fill(ctx_)) return false;
  const std::size_t groups = tile_.groups.size(), panels = tile_.panels.size();
  const bool groups_inside = groups <= panels;
  for (std::size_t i = 0; i < groups * panels; ++i) {
    const std::size_t group = groups_inside ? i % groups : i / panels;
    const std::size_t panel = groups_inside ? i / groups : i % panels;
    if (!MultiplyGroup(strips, tile_.groups.begin + group, tile_.panels.begin + panel)) {
      return false;
    }
  }
  return true;
}

bool ByteBlock::MultiplyGroup(const ByteStrips& strips, std::size_t group, std::size_t panel) {
  const std::size_t pixel = FirstPixel(args_, group), end = FirstPixel(args_, group + 1);
  std::size_t middle = std::min(pixel + kByteHalf, end);
  pointers_[0] = args_.x + pixel * args_.channels;
  pointers_[1] = args_.x + middle * args_.channels;
  std::size_t upper = middle - pixel, lower = end - middle;
  if (args_.piece > 0) {
    middle = std::min(ByteStrips::PixelOf(args_, 2 * group + 1), end);
    const std::size_t part = panel / args_.part_panels;
    pointers_[0] = strips.At(2 * group, part);
    if (middle < end) pointers_[1] = strips.At(2 * group + 1, part);
    // The last piece of a row may be shorter than what is multiplied.
    upper = args_.piece;
    lower = middle < end ? args_.piece : 0;
  }
  if (panel == tile_.panels.begin) FetchResult(pixel - first_, end - pixel);
  if (!Multiply(panel, upper, lower)) return false;
  Store(panel, 0, middle - pixel, pixel - first_);
  if (lower > 0) Store(panel, kByteHalf, end - middle, middle - first_);
  return true;
}

void ByteBlock::Point(const PixelPlace& at, std::size_t pixel, std::size_t row) {
  if (!args_.flat) return PointToTaps(at, row);
  pointers_[row] = args_.x + pixel * args_.channels;
}

void ByteBlock::PointToTaps(const PixelPlace& at, std::size_t row) {
  const ImageWindow& w = args_.window;
  const auto* const zeros = reinterpret_cast<const std::uint8_t*>(scratch_);
  const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(args_.channels) * w.dilation_w;
  const std::uint8_t** to = pointers_ + row;
  const bool inside =
      at.column >= 0 && at.column + static_cast<std::ptrdiff_t>((w.kernel_w - 1) * w.dilation_w) <
                            static_cast<std::ptrdiff_t>(w.width);
  for (std::uint32_t r = 0; r < w.kernel_h; ++r) {
    const std::ptrdiff_t y = at.row + static_cast<std::ptrdiff_t>(r * w.dilation_h);
    const bool row_inside = y >= 0 && y < static_cast<std::ptrdiff_t>(w.height);
    std::ptrdiff_t x = at.column;
    const std::uint8_t* from = row_inside && inside ? PixelAt(at.image, y, x) : zeros;
    for (std::uint32_t s = 0; s < w.kernel_w; ++s, to += args_.unit->rows, x += w.dilation_w) {
      if (!row_inside) {
        *to = zeros;
      } else if (inside) {
        *to = from;
        from += step;
      } else {
        const bool there = x >= 0 && x < static_cast<std::ptrdiff_t>(w.width);
        *to = there ? PixelAt(at.image, y, x) : zeros;
      }
    }
  }
}

/// Makes the copies of the group at `pixel` what is read. With room for two groups the next one's
/// are made here: reading at once what many small writes have just written would wait for them.
void ByteBlock::CopyAhead(std::size_t pixel) {
  const std::size_t most = args_.unit->rows, ahead = args_.copies - 1;
  const auto copy = [&](std::size_t first) {
    std::uint8_t* const to = copies() + first / most % args_.copies * most * args_.pitch;
    if (first < count_) CopyWindows(first_ + first, std::min(most, count_ - first), to);
  };
  if (pixel == 0 && ahead > 0) copy(0);
  copy(pixel + ahead * most);
  const std::uint8_t* const from = copies() + pixel / most % args_.copies * most * args_.pitch;
  for (std::size_t row = 0; row < most; ++row) pointers_[row] = from + row * args_.pitch;
}

// Neighbours are copied together: one row of the kernel for all of them, then the next.
void ByteBlock::CopyWindows(std::size_t pixel, std::size_t rows, std::uint8_t* to) const {
  const std::size_t channels = args_.channels;
  if (args_.flat) {
    const std::uint8_t* const from = args_.x + pixel * channels;
    return args_.unit->copy({from, channels, rows, channels, to, args_.pitch});
  }
  const ImageWindow& w = args_.window;
  PixelPlace at(w, pixel);
  for (std::size_t row = 0, taken = 0; row < rows; row += taken) {
    taken = std::min(PixelsInside(at), rows - row);
    taken = std::max<std::size_t>(taken, 1);
    CopyColumns(at, taken, to + row * args_.pitch);
    for (std::size_t i = 0; i < taken; ++i) at.Next(w);
  }
}

/// How many pixels from `at` on in its row have no column of padding.
std::size_t ByteBlock::PixelsInside(const PixelPlace& at) const {
  const ImageWindow& w = args_.window;
  const std::ptrdiff_t span = std::ptrdiff_t{w.kernel_w - 1} * w.dilation_w;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(w.width) - 1 - span;  // column of a pixel
  if (at.column < 0 || at.column > last) return 0;
  const auto inside = static_cast<std::size_t>((last - at.column) / w.stride_w + 1);
  return std::min<std::size_t>(inside, w.out_width - at.out_column);
}

/// Copies the windows of neighbours. Only one pixel may have columns of padding.
void ByteBlock::CopyColumns(const PixelPlace& at, std::size_t pixels, std::uint8_t* to) const {
  const ImageWindow& w = args_.window;
  const std::size_t channels = args_.channels;
  const auto* const padding = reinterpret_cast<const std::uint8_t*>(scratch_);
  const std::size_t step = std::size_t{w.stride_w} * channels;
  // Columns that lie in one piece.
  const std::size_t most = w.dilation_w == 1 ? w.kernel_w : 1;
  for (std::uint32_t r = 0; r < w.kernel_h; ++r) {
    const std::ptrdiff_t y = at.row + static_cast<std::ptrdiff_t>(r * w.dilation_h);
    const bool row_inside = y >= 0 && y < static_cast<std::ptrdiff_t>(w.height);
    for (std::size_t s = 0, taps = 0; s < w.kernel_w; s += taps, to += taps * channels) {
      const std::ptrdiff_t x = at.column + static_cast<std::ptrdiff_t>(s * w.dilation_w);
      const bool inside = x >= 0 && x < static_cast<std::ptrdiff_t>(w.width);
      taps = std::min(most, w.kernel_w - s);
      if (x < 0) taps = std::min(taps, static_cast<std::size_t>(-x));
      if (inside) taps = std::min(taps, static_cast<std::size_t>(w.width) - x);
      const bool read = row_inside && inside;
      args_.unit->copy({read ? PixelAt(at.image, y, x) : padding, read ? step : 0, pixels,
                        taps * channels, to, args_.pitch});
    }
  }
}

bool ByteBlock::Multiply(std::size_t panel, std::size_t rows, std::size_t lower) {
  const std::size_t depth_quads = std::size_t{args_.taps} * args_.quads;
  const std::int8_t* weights =
      reinterpret_cast<const std::int8_t*>(args_.weights) + panel * depth_quads * kByteQuadBytes;
  const bool strips = args_.piece > 0;  // of a part
  const std::size_t first_channel = strips ? 0 : panel / args_.part_panels * args_.part_channels;
  ByteTile tile{};
  tile.rows = rows;
  tile.lower = lower;
  tile.sums = sums();
  tile.bias = PerColumn<std::int32_t>(args_.bias_offset, panel);
  tile.wide = args_.weights[args_.wide_offset + panel] != std::byte{0};
  for (std::size_t at = 0; at < depth_quads; at += tile.taps * tile.quads) {
    if (ctx_.ShouldLeave()) return false;
    const std::size_t tap = at / args_.quads, quad = at % args_.quads;
    const std::size_t whole_taps = args_.chunk_quads / args_.quads;
    const std::size_t row = tap / args_.row_taps, in_row = tap % args_.row_taps;
    tile.taps = std::clamp<std::size_t>(whole_taps, 1, args_.row_taps - in_row);
    tile.quads = std::min<std::size_t>(args_.quads - quad, args_.chunk_quads);
    tile.pixels = args_.unit->even ? pointers_ : pointers_ + tap * args_.unit->rows;
    tile.pitch = args_.pitch;
    tile.tap_pitch = args_.tap_pitch;
    tile.offset =
        first_channel + quad * kByteQuad + row * args_.row_pitch + in_row * args_.tap_pitch;
    tile.weights = weights + at * kByteQuadBytes;
    tile.resume = at > 0;
    unit_.Multiply(tile);
  }
  return true;
}

void ByteBlock::Store(std::size_t panel, std::size_t first_row, std::size_t rows,
                      std::size_t pixel) {
  ByteStore store{};
  store.sums = sums() + first_row * kBytePanel;
  store.rows = rows;
  const std::size_t column = ByteColumnOf(args_, panel) - first_column_;
  store.columns = ColumnsOf(args_, panel);
  store.scale = PerColumn<float>(args_.scale_offset, panel);
  store.low = args_.low;
  store.high = args_.high;
  store.limits = args_.limits;
  store.grid = args_.grid;
  store.zero = args_.y_zero;
  store.y = scratch_ + args_.result_offset + (pixel * columns_ + column) * element_;
  store.pitch = columns_;
  (args_.floats ? args_.unit->store_floats : args_.unit->store_bytes)(store);
}

// Other cores may hold these lines of y: they come while the block multiplies.
void ByteBlock::FetchResult(std::size_t pixel, std::size_t rows) const {
  const std::size_t pitch = args_.out_channels * element_, row_bytes = columns_ * element_;
  const std::size_t first = (first_ + pixel) * pitch + first_column_ * element_;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t begin = first + row * pitch;
    for (std::size_t at = begin; at < begin + row_bytes; at += kLine) {
      __builtin_prefetch(static_cast<const std::byte*>(args_.y) + at, 1);
      if (args_.residual != nullptr) __builtin_prefetch(args_.residual + at);
    }
  }
}

// The first visible write.
void ByteBlock::CopyResult() const {
  const std::size_t first = first_ * args_.out_channels + first_column_;
  const std::size_t row = columns_ * element_, pitch = args_.out_channels * element_;
  const std::byte* from = scratch_ + args_.result_offset;
  // Rows of all columns lie in one piece.
  const std::size_t pieces = row == pitch ? 1 : count_, piece = row == pitch ? count_ * row : row;
  for (std::size_t i = 0; i < pieces; ++i, from += row) {
    const std::size_t at = first * element_ + i * pitch;
    auto* const to = static_cast<std::byte*>(args_.y) + at;
    if (args_.residual == nullptr) {
      std::memcpy(to, from, piece);
    } else {
      args_.add(reinterpret_cast<const std::uint8_t*>(from), args_.residual + at, *args_.scales,
                piece, reinterpret_cast<std::uint8_t*>(to));
    }
  }
}

}  // namespace

bool ByteConvBody(const void* args, std::uint32_t block, BlockContext& ctx) {
  return ByteBlock(*static_cast<const ByteConvArgs*>(args), block, ctx).Run();
}

}  // namespace lagoon
