#pragma once

// What the vector code offers for the best instruction set of this machine.

#include <cstdint>

#include "device/block.h"

namespace lagoon {

struct ConvTarget {
  Body conv;               // arguments: Conv2dArgs
  Body gemv;               // arguments: GemvArgs
  std::uint32_t lanes;     // floats of a vector
  std::uint32_t max_rows;  // of a micro-tile
  double flops_per_us;     // of one unit in the micro-kernel; measured, used to size blocks
};

/// Any thread.
ConvTarget ChosenConvTarget();

/// Input channels up to which padding can be read from a shared block of zeros.
inline constexpr std::uint32_t kMaxEdgeChannels = 4096;

}  // namespace lagoon
