#pragma once

// The arguments that the factory of the grouped convolution passes to its body. Names:
//   panel    output channels that share one vector: some whole groups, or a part of one group
//   segment  the pixels of one output row that are computed together, each in a register
//   patch    a copy of the input of a tile and a panel, with zeros where columns are padding; the
//            pixels of a panel lie side by side in the patch

#include <algorithm>

#include "kernels/activation.h"
#include "kernels/conv/grouped_conv.h"
#include "kernels/cpu_level.h"
#include "kernels/tiling.h"

namespace lagoon {

/// Most pixels of a segment on any instruction set.
inline constexpr std::size_t kMaxGroupedPixels = 14;

/// How the channels are distributed over vectors.
struct GroupedPanels {
  std::uint32_t lanes = 1;   // floats per vector
  std::uint32_t groups = 1;  // groups per panel; if 1, a panel may also be a part of a group
  std::uint32_t count = 1;

  bool several() const { return groups > 1; }
};

inline GroupedPanels PanelsOf(const GroupedConvSpec& spec, std::size_t lanes) {
  const std::size_t widest = std::max(spec.in_channels, spec.out_channels) / spec.groups;
  const std::size_t together = std::max<std::size_t>(1, lanes / widest);
  GroupedPanels panels;
  panels.lanes = static_cast<std::uint32_t>(lanes);
  panels.groups = static_cast<std::uint32_t>(std::min<std::size_t>(together, spec.groups));
  const std::size_t parts = CeilDivide(spec.out_channels / spec.groups, lanes);
  panels.count = static_cast<std::uint32_t>(
      panels.several() ? CeilDivide(spec.groups, panels.groups) : spec.groups * parts);
  return panels;
}

/// The channels of a panel.
struct PanelChannels {
  Range in, out;
};

inline PanelChannels ChannelsOf(const GroupedConvSpec& spec, const GroupedPanels& panels,
                                std::size_t panel) {
  const std::size_t in = spec.in_channels / spec.groups, out = spec.out_channels / spec.groups;
  if (panels.several()) {
    const std::size_t begin = panel * panels.groups;
    const std::size_t end = std::min<std::size_t>(spec.groups, begin + panels.groups);
    return {{begin * in, end * in}, {begin * out, end * out}};
  }
  const std::size_t parts = CeilDivide(out, panels.lanes);
  const std::size_t group = panel / parts, first = panel % parts * panels.lanes;
  const std::size_t end = std::min<std::size_t>(out, first + panels.lanes);
  return {{group * in, (group + 1) * in}, {group * out + first, group * out + end}};
}

struct GroupedConvArgs {
  const float* x = nullptr;
  const float* weights = nullptr;  // [panel][kernel_h][kernel_w][in_channels / groups][lanes]
  const float* bias = nullptr;     // null: none
  float* y = nullptr;
  GroupedConvSpec spec;
  Limits limits;
  Finish finish;
  GroupedPanels panels;
  std::uint32_t row_tiles = 1, column_tiles = 1, panel_tiles = 1;  // tiles per image
  /// What a block of one panel adds to the sums of all its pixels at once: so many pieces of the
  /// filter's rows, of its columns and of the depth, with a guard check after each.
  std::uint32_t row_pieces = 1, column_pieces = 1, depth_pieces = 1;

  std::size_t pieces() const { return std::size_t{row_pieces} * column_pieces * depth_pieces; }
};

/// A part of the products of an output.
struct GroupedPiece {
  Range rows, columns, depth;
};

inline GroupedPiece PieceOf(const GroupedConvArgs& args, std::size_t index) {
  const GroupedConvSpec& spec = args.spec;
  const std::size_t column = index % args.column_pieces, rest = index / args.column_pieces;
  return {Share(spec.window.kernel_h, args.row_pieces, rest % args.row_pieces),
          Share(spec.window.kernel_w, args.column_pieces, column),
          Share(spec.in_channels / spec.groups, args.depth_pieces, rest / args.row_pieces)};
}

/// The body for one instruction set.
struct GroupedConvTarget {
  CpuLevel level = CpuLevel::kPortable;  // the lowest level that runs the body
  Body body = nullptr;
  std::uint32_t lanes = 1;   // floats per vector
  std::uint32_t pixels = 1;  // pixels of the longest segment
};

/// What one block computes.
struct GroupedTile {
  std::size_t image = 0;
  Range panels, rows, columns;
};

inline GroupedTile TileOf(const GroupedConvArgs& args, std::size_t block) {
  GroupedTile tile;
  tile.panels = Share(args.panels.count, args.panel_tiles, block % args.panel_tiles);
  block /= args.panel_tiles;
  tile.columns = Share(args.spec.window.out_width, args.column_tiles, block % args.column_tiles);
  block /= args.column_tiles;
  tile.rows = Share(args.spec.window.out_height, args.row_tiles, block % args.row_tiles);
  tile.image = block / args.row_tiles;
  return tile;
}

/// Number of input positions that `outputs` neighbouring outputs of an axis cover.
inline std::size_t ReachOf(std::size_t outputs, std::size_t stride, std::size_t taps,
                           std::size_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

/// Floats per pixel of a patch.
inline std::size_t PatchSlot(const GroupedConvSpec& spec, const GroupedPanels& panels) {
  return panels.several() ? panels.lanes : spec.in_channels / spec.groups;
}

}  // namespace lagoon
