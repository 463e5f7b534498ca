#pragma once

// Shared by the body of byte_conv and its factory. Names:
//   group  the output pixels of one micro-tile
//   part   as many of ONNX's groups of channels as have room in a panel; a panel has columns of one
//          part only
//   tile   what one block computes: some panels of some groups
//   tap    a stretch of the depth that lies in one piece for each pixel

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "kernels/conv/int8/byte_unit.h"
#include "kernels/elementwise/byte_add.h"
#include "kernels/image_window.h"
#include "kernels/tiling.h"

namespace lagoon {

/// Where each part of the packed weights begins, in bytes.
struct PackedByteConv {
  std::size_t bias = 0, scale = 0, wide = 0, size = 0;

  /// Of a product of matrices.
  static PackedByteConv OfMatrix(std::size_t depth, std::size_t columns) {
    return {CeilDivide(depth, kByteQuad), CeilDivide(columns, kBytePanel)};
  }
  /// `quads`: of a panel.
  PackedByteConv(std::size_t quads, std::size_t panels) {
    bias = panels * quads * kByteQuadBytes;
    scale = bias + panels * kBytePanel * sizeof(std::int32_t);
    wide = scale + panels * kBytePanel * sizeof(float);
    // Units of tiles read behind the last panel.
    size = std::max(wide + panels, bias + (kByteTileQuads - 1) * kByteQuadBytes);
  }
};

struct ByteConvArgs {
  const std::uint8_t* x;
  const std::byte* weights;      // PackedByteConv
  const std::uint8_t* residual;  // null: none
  const ByteAddScales* scales;   // of the addition
  void* y;
  const ByteUnit* unit;
  ByteAddFunction add;

  ImageWindow window;
  std::uint32_t channels, out_channels;
  std::uint32_t pixels;  // output pixels of all images
  std::uint32_t groups, panels;
  std::uint32_t part_channels, part_columns, part_panels;  // of x, of y, and panels of a part
  std::uint32_t group_tiles, panel_tiles;
  std::uint32_t taps, quads;  // of a tap; with strips those of a step that is not full are 0
  std::uint32_t pitch;        // bytes from row to row of the products, if they are even
  /// Of them: bytes from tap to tap, taps of a row, and bytes from row to row of taps.
  std::size_t tap_pitch, row_taps, row_pitch;
  std::uint32_t chunk_quads;  // between two guard checks
  /// The windows of so many groups have room in scratch memory, where each pixel's is one tap; 0: x
  /// is read where it is.
  std::uint32_t copies;
  /// With strips (byte_strips.h): pixels of a piece of a row of y, which is half a group, pieces of
  /// a row, and pixels of a row of a strip. Else 0.
  std::uint32_t piece, pieces, strip_width;
  bool flat;  // pixel i of y reads pixel i of x and nothing else
  bool floats;
  bool limits;
  std::uint8_t x_zero, y_zero;
  float low, high;
  float grid;
  std::size_t bias_offset, scale_offset, wide_offset;  // in the packed weights
  // In scratch memory, in bytes.
  std::size_t pointers_offset, sums_offset, copies_offset, result_offset;
};

/// The first output channel of a panel.
inline std::size_t ByteColumnOf(const ByteConvArgs& args, std::size_t panel) {
  return panel / args.part_panels * args.part_columns + panel % args.part_panels * kBytePanel;
}

struct ByteConvTile {
  Range groups, panels;
};

inline ByteConvTile ByteTileOf(const ByteConvArgs& args, std::uint32_t block) {
  return {Share(args.groups, args.group_tiles, block / args.panel_tiles),
          Share(args.panels, args.panel_tiles, block % args.panel_tiles)};
}

/// Computes tile `block`; `args`: ByteConvArgs.
bool ByteConvBody(const void* args, std::uint32_t block, BlockContext& ctx);

}  // namespace lagoon
