#pragma once

// Shared by the bf16 body of conv2d and its factory. The convolution is a matrix product: a row is
// an output pixel of any image, a column is an output channel, and the depth runs over kernel rows,
// kernel columns and input channels. A block copies the input of its pixels to scratch memory as
// rows of bf16, multiplies, and writes fp32. Names:
//   panel  the columns of one micro-tile: 32, or 16 in the last panel
//   group  the pixels of one micro-tile: at most 32
//   tile   what one block computes: some panels of some pixels

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/conv/bf16/bf16_unit.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/image_window.h"
#include "kernels/tiling.h"

namespace lagoon {

inline constexpr std::uint32_t kBf16Panel = 2 * kBf16Vector;
inline constexpr std::size_t kBf16ItemFloats = std::size_t{kBf16Rows} * kBf16Panel;

struct Bf16ConvArgs {
  const float* x;
  const Bf16* weights;    // packed: [panel][step][half of the panel][pair][column][2]
  const float* bias;      // may be null
  const float* residual;  // may be null
  float* y;
  const Bf16Unit* unit;
  const ConvTarget* target;      // stores the results
  float low, high;               // limits of y; infinite for none
  Finish finish;                 // applied to a tile after it is written
  const float* finish_residual;  // may be null

  ImageWindow window;
  std::uint32_t channels, out_channels;
  bool flat;  // pixel i of the output reads pixel i of the input and nothing else

  std::uint32_t pixels;  // output pixels of all images
  std::uint32_t steps;   // steps of the depth
  std::uint32_t panels;
  std::uint32_t chunk_steps;  // steps between two guard checks
  std::uint32_t pixel_tiles, panel_tiles;
  /// If true, consecutive blocks differ in their panels, else in their pixels.
  bool panels_first;
  std::size_t row_bytes;    // distance between rows of the input in scratch memory
  std::size_t sums_offset;  // offset of the sums in scratch memory, in bytes
};

struct Bf16ConvTile {
  Range pixels, panels;
};

inline Bf16ConvTile Bf16TileOf(const Bf16ConvArgs& args, std::uint32_t block) {
  const bool inner = args.panels_first;
  const std::uint32_t panel = inner ? block % args.panel_tiles : block / args.pixel_tiles;
  const std::uint32_t pixel = inner ? block / args.panel_tiles : block % args.pixel_tiles;
  return {Share(args.pixels, args.pixel_tiles, pixel), Share(args.panels, args.panel_tiles, panel)};
}

/// Columns of a panel: 32, or 16 if the remaining columns fit.
inline std::size_t Bf16PanelWidth(std::size_t out_channels, std::size_t panel) {
  return out_channels - panel * kBf16Panel > kBf16Vector ? kBf16Panel : kBf16Vector;
}

inline std::size_t Bf16Steps(std::size_t depth) { return CeilDivide(depth, kBf16Step); }

}  // namespace lagoon
