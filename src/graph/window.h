#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "graph/op_context.h"

namespace lagoon {

/// The sliding window of a convolution or pooling over height and width.
struct Window {
  std::array<std::int64_t, 2> kernel{}, strides{}, dilations{}, out{};
  std::array<std::int64_t, 4> pads{};  // top, left, bottom, right
  bool ceil_added_pads = false;        // ceil_mode took the window over the padded input
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode of a node over an image of `height` and
/// `width` with a window of `kernel`, and computes the size of the output. Writes the attributes
/// back resolved: no auto_pad, no ceil_mode.
Result<Window> ResolveWindow(OpContext& context, std::array<std::int64_t, 2> image,
                             std::array<std::int64_t, 2> kernel);

/// The two integers of `attribute`; `otherwise` for both if it is left out. Each in [1, 2^30].
Result<std::array<std::int64_t, 2>> Pair(const OpContext& context, const std::string& attribute,
                                         std::int64_t otherwise);

}  // namespace lagoon
