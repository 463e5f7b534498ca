#pragma once

// The sizes of a Resize node.

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// How the axes change, and which region of x is read ("tf_crop_and_resize").
struct ResizeScaling {
  std::vector<float> scales;  // one per axis
  Dims out;
  std::vector<float> roi;  // all begins, then all ends
};

/// Reads the attributes and the constant inputs of a Resize or an Upsample. `scales_input`: the
/// index of the input with the scales; input 3, if there is one, has the sizes.
Result<ResizeScaling> ReadScaling(const OpContext& context, std::size_t scales_input);

}  // namespace lagoon
