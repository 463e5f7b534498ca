#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/op_context.h"

namespace lagoon {

/// The sliding window of a convolution or pooling over the spatial axes, one entry for each.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, out;
  std::vector<std::int64_t> pads;  // all begins, then all ends
  bool ceil_added_pads = false;    // ceil_mode took the window over the padded input
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode of a node over an image of the spatial
/// sizes `image` with a window of `kernel`, and computes the size of the output. Writes the
/// attributes back resolved: no auto_pad, no ceil_mode.
Result<Window> ResolveWindow(OpContext& context, std::span<const std::int64_t> image,
                             std::vector<std::int64_t> kernel);

/// The same for a transposed convolution, whose output is the larger side: reads output_padding and
/// output_shape too, and drops them. `pads` may be negative where output_shape asks for more.
Result<Window> ResolveTransposedWindow(OpContext& context, std::span<const std::int64_t> image,
                                       std::vector<std::int64_t> kernel);

/// The `count` integers of `attribute`; `otherwise` for all if it is left out. Each in [1, 2^30].
Result<std::vector<std::int64_t>> SpatialInts(const OpContext& context,
                                              const std::string& attribute, std::size_t count,
                                              std::int64_t otherwise);

}  // namespace lagoon
