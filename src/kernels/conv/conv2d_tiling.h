#pragma once

// How a convolution is mapped to the body: the shape that the body computes, and its blocks.

#include <cstddef>
#include <vector>

#include "kernels/conv/conv2d.h"
#include "kernels/conv/conv2d_args.h"
#include "kernels/conv/conv2d_body.h"

namespace lagoon {

/// True if output pixel i reads input pixel i only: the body then treats all images as one long
/// row.
bool IsFlat(const Conv2dSpec& spec);

/// True for one output pixel of one image: conv2d then runs the matrix-vector body.
bool IsGemv(const Conv2dSpec& spec);

/// The tiling for a target: all of Conv2dArgs but the pointers. The spec must be checked.
struct ConvTiling {
  Conv2dArgs args;
  std::uint32_t blocks;
  std::size_t scratch_bytes;
};
ConvTiling TileConv2d(const Conv2dSpec& spec, const ConvTarget& target);

/// Different ways to cut the output within the time limits of blocks, TileConv2d's first: at most
/// `count`, spread over block times from short to long.
std::vector<ConvTiling> TileConv2dVersions(const Conv2dSpec& spec, const ConvTarget& target,
                                           std::size_t count);

}  // namespace lagoon
