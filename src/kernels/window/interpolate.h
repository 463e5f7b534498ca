#pragma once

// Resampling along one axis.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// y[o, i, :] = sum over t of weights[i, t] * x[o, indices[i, t], :]; `fill` if indices[i, 0] is
/// negative.
struct InterpolateSpec {
  std::size_t outer = 1, in = 1, out = 1, inner = 1;
  std::size_t taps = 2;
  float fill = 0;
};

/// Inputs: x [outer, in, inner], indices (int32) and weights (fp32), both [out, taps]. Output: y
/// [outer, out, inner], which must not overlap an input. The caller checks that every index is
/// below `in`.
Result<Kernel> MakeInterpolate(const InterpolateSpec& spec);

}  // namespace lagoon
