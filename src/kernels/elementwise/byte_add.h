#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// Floats that stand behind bytes: (byte - zero) * scale. The bytes of y are rounded, with halves
/// to even, and lie in [y_low, y_high].
struct ByteAddScales {
  float a_scale = 1, a_zero = 0, b_scale = 1, b_zero = 0, y_scale = 1, y_zero = 0;
  float y_low = 0, y_high = 255;
};

/// y = a + b, each `count` UINT8. Inputs: a, b, one ByteAddScales.
Result<Kernel> MakeByteAdd(std::size_t count);

/// y = a + b, for the bodies of kernels.
using ByteAddFunction = void (*)(const std::uint8_t* a, const std::uint8_t* b,
                                 const ByteAddScales& scales, std::size_t count, std::uint8_t* y);
ByteAddFunction FindByteAdd();

}  // namespace lagoon
