#pragma once

// Shared by conv2d's factory and its bodies: the argument struct and the cutting into tiles.
//
// The convolution is a matrix product: a row is an output pixel, a column is an output channel, and
// the depth runs over kernel rows, kernel columns and input channels, in this order. Names:
//   panel    the columns of one micro-tile: two vectors, or one vector in the last panel
//   segment  the rows of one micro-tile: some output pixels of one class
//   class    the output pixels that have the same kernel columns inside the image, or just all
//   tap      a stretch of the depth that is contiguous in x: the channels of one kernel position,
//            or of a whole kernel row if the columns of that row are neighbours in x
//   chunk    the part of the depth that one call of the micro-kernel covers
//   tile     what one block computes: some panels of some segments

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/image_window.h"
#include "kernels/tiling.h"

namespace lagoon {

/// Limit of Conv2dArgs::call_panels.
inline constexpr std::uint32_t kMaxCallPanels = 8;

/// Most of the depth in one chunk.
inline constexpr std::uint32_t kMaxChunkDepth = 1280;

/// With ConvInput::kList: most kernel rows and most taps per kernel row, and most classes. With
/// kEdge: most taps per kernel row.
inline constexpr std::uint32_t kMaxListKernel = 32, kMaxListClasses = 16;

/// How a body reads x.
enum class ConvInput : std::uint8_t {
  kDirect,  // in place; a segment is neighbours of an output row; none reads a column of padding
  kEdge,    // the same; only the first and the last pixel of an output row read columns of padding
  kList,    // in place; the pixels of a segment lie anywhere
  kPatch,   // from a copy with zeros around it, which each block makes for itself
};

/// Classes: columns of the output, in all rows of all images, whose pixels are a list in row-major
/// order. Not an array of structs: gcc 12 clears some of its values together with the padding of
/// the arguments.
struct ConvClasses {
  std::uint32_t count;
  std::uint32_t first_column[kMaxListClasses], columns[kMaxListClasses];
  std::uint32_t first_segment[kMaxListClasses];  // number of segments of the classes before
};

struct Conv2dArgs {
  const float* x;
  const float* weights;   // packed: [panel][depth][width of the panel]
  const float* bias;      // may be null
  const float* residual;  // may be null
  float* y;
  const ConvTarget* target;      // the instruction set that the tiling is for
  float low, high;               // limits of y; infinite for none
  Finish finish;                 // applied to a tile after it is written
  const float* finish_residual;  // may be null

  ImageWindow window;
  // Sizes in elements. `depth` = kernel_h * taps_w * tap_depth.
  std::uint32_t channels, out_channels;
  std::uint32_t taps_w, tap_depth, depth;
  ConvInput input;

  // Chunks: each covers several taps or, if tap_pieces > 1, a piece of one tap.
  std::uint32_t chunks, chunk_taps, tap_pieces;

  // Where segments lie: in `images` images of `rows` rows. With kList these are 1, and the segments
  // of class 0 come first, then those of class 1, and so on.
  std::uint32_t images, rows;
  ConvClasses classes;

  // Tiles per image: row_tiles x segment_tiles x panel_tiles. A tile is some whole rows
  // (segment_tiles is 1) or a part of one row.
  std::uint32_t lanes;             // floats per vector
  std::uint32_t panels, segments;  // panels of y; segments per row
  std::uint32_t segment_pixels;    // without kList: most segments have as many, some one more
  std::uint32_t row_tiles, segment_tiles, panel_tiles;
  /// If true, consecutive blocks have different panels and share input, else they share weights.
  bool panels_first;
  /// If true, within a block, the micro-tiles of all panels of a segment follow each other.
  bool panels_inner;
  std::uint32_t whole_panels;   // number of panels whose columns all exist
  std::uint32_t call_panels;    // most panels between two looks at the guard, with panels_inner
  std::uint32_t call_segments;  // most segments of all panels, 1 where a call cannot take several
  std::uint32_t direct_items;   // number of micro-tiles at the end of a block that write y directly
  std::uint32_t item_floats;    // floats of scratch per micro-tile
  std::size_t patch_offset;     // offset of the patch in the scratch, in bytes
};

/// The micro-tiles of one block.
struct ConvTile {
  std::uint32_t image;
  Range panels, rows, segments;
  std::size_t items() const { return panels.size() * rows.size() * segments.size(); }
};

/// Neighbouring pixels of an output row, or of the list of a class.
struct Pixels {
  std::uint32_t first, count;
};

/// The pixels of a segment of an output row. Sizes of segments differ by at most one.
inline Pixels PixelsOf(const Conv2dArgs& args, std::uint32_t segment) {
  const std::uint32_t longer = args.window.out_width - args.segment_pixels * args.segments;
  const std::uint32_t first = segment * args.segment_pixels + (segment < longer ? segment : longer);
  return {first, args.segment_pixels + (segment < longer ? 1 : 0)};
}

inline ConvTile TileOf(const Conv2dArgs& args, std::uint32_t block) {
  const std::uint32_t spatial = args.images * args.row_tiles * args.segment_tiles;
  const std::uint32_t panel = args.panels_first ? block % args.panel_tiles : block / spatial;
  std::uint32_t rest = args.panels_first ? block / args.panel_tiles : block % spatial;
  ConvTile tile{};
  tile.panels = Share(args.panels, args.panel_tiles, panel);
  tile.segments = Share(args.segments, args.segment_tiles, rest % args.segment_tiles);
  rest /= args.segment_tiles;
  tile.rows = Share(args.rows, args.row_tiles, rest % args.row_tiles);
  tile.image = rest / args.row_tiles;
  return tile;
}

/// Columns of a panel: two vectors, or one vector if the remaining columns fit.
inline std::uint32_t PanelWidth(std::uint32_t lanes, std::uint32_t out_channels,
                                std::size_t panel) {
  const std::size_t rest = out_channels - panel * 2 * lanes;
  return rest > lanes ? 2 * lanes : lanes;
}

}  // namespace lagoon
