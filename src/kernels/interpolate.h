#pragma once

// Resampling along one axis.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// y[o, i, :] = sum over t of weights[i, t] * x[o, indices[i, t], :]; `fill` where indices[i, 0] is
/// negative.
struct InterpolateSpec {
  std::size_t outer = 1, in = 1, out = 1, inner = 1;
  std::size_t taps = 2;
  float fill = 0;
};

/// Inputs: x [outer, in, inner], indices (int32) and weights (fp32), both [out, taps]; output
/// y [outer, out, inner]; no overlap. Every index must be below `in`: the caller checks.
Result<Kernel> MakeInterpolate(const InterpolateSpec& spec);

}  // namespace lagoon
