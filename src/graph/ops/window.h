#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// The sliding window of a convolution or pooling; every vector has one entry per spatial axis.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, out;
  std::vector<std::int64_t> pads;        // all begins, then all ends
  std::vector<std::int64_t> given_pads;  // without what ceil_mode added to the ends
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode of a node with the window size `kernel`
/// over an image of the spatial size `image`, and computes the output size. Writes the resolved
/// attributes back, without auto_pad and ceil_mode.
Result<Window> ResolveWindow(OpContext& context, std::span<const std::int64_t> image,
                             std::vector<std::int64_t> kernel);

/// The same for a transposed convolution, whose output is larger than its input: also reads
/// output_padding and output_shape, and removes both. `pads` may be negative if output_shape asks
/// for a larger output.
Result<Window> ResolveTransposedWindow(OpContext& context, std::span<const std::int64_t> image,
                                       std::vector<std::int64_t> kernel);

/// The `count` integers of `attribute`, or `count` copies of `otherwise` if it is left out. Each in
/// [1, 2^30].
Result<std::vector<std::int64_t>> SpatialInts(const OpContext& context,
                                              const std::string& attribute, std::size_t count,
                                              std::int64_t otherwise);

}  // namespace lagoon
