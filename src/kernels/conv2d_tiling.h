#pragma once

// How a convolution is mapped to the body: the shape that the body sees, and its blocks.

#include <cstddef>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/conv2d_args.h"
#include "kernels/conv2d_body.h"

namespace lagoon {

/// True where output pixels read neighbouring pixels one for one: all images are one long row.
bool IsFlat(const Conv2dSpec& spec);

/// True for one output pixel of one image: conv2d then runs the matrix-vector body.
bool IsGemv(const Conv2dSpec& spec);

/// The tiling for `target`: all of Conv2dArgs but the pointers. Needs a checked spec.
struct ConvTiling {
  Conv2dArgs args;
  std::uint32_t blocks;
  std::size_t scratch_bytes;
};
ConvTiling TileConv2d(const Conv2dSpec& spec, const ConvTarget& target);

/// Ways to cut the output that keep the blocks' bounds, all different, the one of TileConv2d first:
/// at most `count`, spread over block times from short to long.
std::vector<ConvTiling> TileConv2dVersions(const Conv2dSpec& spec, const ConvTarget& target,
                                           std::size_t count);

}  // namespace lagoon
