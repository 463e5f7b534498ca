#include "kernels/conv/int8/byte_strips.h"

#include <algorithm>
#include <cstring>

#include "kernels/window.h"

namespace lagoon {
namespace {

/// Shorter pieces leave too much of a tile empty. Parts have no other way to use tiles, and vectors
/// take several times as long.
constexpr std::uint32_t kShortestPiece = 12, kShortestPieceOfParts = 4;
/// Larger strips would not stay in the second cache.
constexpr std::size_t kMostStripBytes = 512 << 10;

/// Rows of x that the windows of `rows` rows of y of one image span.
std::size_t SpanOf(const ImageWindow& w, std::size_t rows) {
  return (rows - 1) * w.stride_h + std::size_t{w.kernel_h - 1} * w.dilation_h + 1;
}

std::size_t RowBytes(const ByteConvArgs& args) {
  return std::size_t{args.strip_width} * args.part_channels;
}

/// Rows of the strips of a part in a block.
std::size_t MostRows(const ByteConvArgs& args) {
  const ImageWindow& w = args.window;
  const std::size_t groups = CeilDivide(args.groups, args.group_tiles);
  const std::size_t rows = CeilDivide(2 * groups, args.pieces) + 1;
  // Every image has rows above those of its first row of y.
  const std::size_t images = rows / w.out_height + 2;
  return rows * w.stride_h + images * SpanOf(w, 1);
}

}  // namespace

void UseStrips(ByteConvArgs& args) {
  const ImageWindow& w = args.window;
  constexpr std::size_t kStep = kByteTileQuads * kByteQuad;
  // A tap is a row of the kernel, if that lies in one piece, or else a pixel.
  const bool rows = w.dilation_w == 1;
  const std::size_t tap = std::size_t{rows ? w.kernel_w : 1} * args.part_channels;
  const std::size_t steps = CeilDivide(tap, kStep);
  const bool one_part = args.part_channels == args.channels;
  if (!args.unit->even || WindowTaps(w) == 1) return;
  // With a third of each tap empty, copies of windows are as fast.
  if (one_part && 3 * tap < 2 * steps * kStep) return;
  const auto pieces = static_cast<std::uint32_t>(CeilDivide(w.out_width, kByteHalf));
  const auto piece = static_cast<std::uint32_t>(CeilDivide(w.out_width, pieces));
  if (piece < (one_part ? kShortestPiece : kShortestPieceOfParts)) return;
  const std::uint32_t width =
      (pieces * piece - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1;
  if (std::size_t{width} * args.channels * SpanOf(w, 2) > kMostStripBytes) return;
  args.pieces = pieces;
  args.piece = piece;
  args.strip_width = width;
  args.copies = 0;
  args.quads = static_cast<std::uint32_t>(steps * kByteTileQuads);
  args.pitch = w.stride_w * args.part_channels;
  args.row_pitch = w.dilation_h * RowBytes(args);
  args.taps = rows ? w.kernel_h : w.kernel_h * w.kernel_w;
  args.row_taps = rows ? w.kernel_h : w.kernel_w;
  args.tap_pitch = rows ? args.row_pitch : std::size_t{w.dilation_w} * args.part_channels;
  args.groups = static_cast<std::uint32_t>(CeilDivide(ByteStrips::Halves(args), 2));
}

std::size_t StripBytes(const ByteConvArgs& args) {
  if (args.piece == 0) return 0;
  // The panels of a block may begin within a part.
  const std::size_t panels = CeilDivide(args.panels, args.panel_tiles);
  const std::size_t all = args.panels / args.part_panels;
  const std::size_t parts = std::min(CeilDivide(panels - 1, args.part_panels) + 1, all);
  // The last step may end behind the last row.
  return parts * MostRows(args) * RowBytes(args) + kByteTileQuads * kByteQuad;
}

ByteStrips::ByteStrips(const ByteConvArgs& args, Range groups, Range parts, std::uint8_t* memory)
    : args_(args),
      parts_(parts),
      first_(args.piece == 0 ? 0 : 2 * groups.begin / args.pieces),
      last_(args.piece == 0
                ? 0
                : (std::min<std::size_t>(2 * groups.end, Halves(args)) - 1) / args.pieces),
      part_bytes_(args.piece == 0 ? 0 : MostRows(args) * RowBytes(args)),
      memory_(memory) {}

std::size_t ByteStrips::Halves(const ByteConvArgs& args) {
  return std::size_t{args.window.batch} * args.window.out_height * args.pieces;
}

std::size_t ByteStrips::PixelOf(const ByteConvArgs& args, std::size_t half) {
  return half / args.pieces * args.window.out_width + half % args.pieces * args.piece;
}

std::size_t ByteStrips::FirstRow(std::size_t image) const {
  const ImageWindow& w = args_.window;
  const std::size_t first_image = first_ / w.out_height;
  if (image == first_image) return 0;
  const std::size_t of_first = SpanOf(w, w.out_height - first_ % w.out_height);
  return of_first + (image - first_image - 1) * SpanOf(w, w.out_height);
}

const std::uint8_t* ByteStrips::At(std::size_t half, std::size_t part) const {
  const ImageWindow& w = args_.window;
  const std::size_t row = half / args_.pieces, image = row / w.out_height;
  const std::size_t first = image == first_ / w.out_height ? first_ % w.out_height : 0;
  const std::size_t strip_row = FirstRow(image) + (row % w.out_height - first) * w.stride_h;
  const std::size_t column = half % args_.pieces * args_.piece * w.stride_w;
  return memory_ + (part - parts_.begin) * part_bytes_ + strip_row * RowBytes(args_) +
         column * args_.part_channels;
}

bool ByteStrips::Fill(BlockContext& ctx) const {
  if (args_.piece == 0) return true;
  const ImageWindow& w = args_.window;
  for (std::size_t image = first_ / w.out_height; image <= last_ / w.out_height; ++image) {
    const std::size_t first = image == first_ / w.out_height ? first_ % w.out_height : 0;
    const std::size_t end = image == last_ / w.out_height ? last_ % w.out_height + 1 : w.out_height;
    std::uint8_t* to = memory_ + FirstRow(image) * RowBytes(args_);
    const std::size_t rows = SpanOf(w, end - first);
    for (std::size_t i = 0; i < rows; ++i, to += RowBytes(args_)) {
      if (ctx.ShouldLeave()) return false;
      FillRow(image,
              static_cast<std::ptrdiff_t>(first * w.stride_h + i) -
                  static_cast<std::ptrdiff_t>(w.pad_top),
              to);
    }
  }
  return true;
}

/// Row `y` of the image, which may be padding, to each part's strips. `to`: in the first part's.
void ByteStrips::FillRow(std::size_t image, std::ptrdiff_t y, std::uint8_t* to) const {
  const ImageWindow& w = args_.window;
  const std::size_t channels = args_.part_channels, row_bytes = RowBytes(args_);
  const bool inside = y >= 0 && y < static_cast<std::ptrdiff_t>(w.height);
  const std::size_t row = inside ? image * w.height + static_cast<std::size_t>(y) : 0;
  const std::size_t before = std::min<std::size_t>(w.pad_left, args_.strip_width);
  const std::size_t there = inside ? std::min<std::size_t>(w.width, args_.strip_width - before) : 0;
  const std::uint8_t* from = args_.x + row * w.width * args_.channels + parts_.begin * channels;
  for (std::size_t part = 0; part < parts_.size(); ++part, to += part_bytes_, from += channels) {
    std::memset(to, args_.x_zero, before * channels);
    std::uint8_t* const inner = to + before * channels;
    if (channels == args_.channels) {
      std::memcpy(inner, from, there * channels);
    } else if (there > 0) {
      args_.unit->copy({from, args_.channels, there, channels, inner, channels});
    }
    std::memset(inner + there * channels, args_.x_zero, row_bytes - (before + there) * channels);
  }
}

}  // namespace lagoon
