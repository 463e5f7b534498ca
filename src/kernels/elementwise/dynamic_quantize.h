#pragma once

// DynamicQuantizeLinear: floats become bytes, with a scale and a zero point that follow from the
// least and the greatest float.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// With more elements than this the extremes come from a kernel of their own.
inline constexpr std::size_t kMaxInOneBlock = 1 << 14;

struct ExtremesSpec {
  std::size_t count = 1;
};

/// The number of pairs that Extremes writes.
std::size_t ExtremesParts(const ExtremesSpec& spec);

/// Input: x [count] (fp32). Output: [ExtremesParts()][2] (fp32): the least and the greatest element
/// of each part of x, or 0 if that is less or greater. kInvalidArgument if `count` is zero or too
/// large.
Result<Kernel> MakeExtremes(const ExtremesSpec& spec);

struct DynamicQuantizeSpec {
  std::size_t count = 1;
  /// Pairs in the second input; 0: there is no second input, one block finds the extremes itself.
  std::size_t parts = 0;
};

/// Inputs: x [count] (fp32), and the output of Extremes if `parts` is not 0. Outputs: y [count]
/// (kUInt8), the scale (one fp32), the zero point (one kUInt8). As ONNX defines it: the scale is
/// (greatest - least) / 255, the zero point round(-least / scale). kInvalidArgument if `count` is
/// zero or too large.
Result<Kernel> MakeDynamicQuantize(const DynamicQuantizeSpec& spec);

}  // namespace lagoon
