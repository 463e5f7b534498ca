#pragma once

// Kernels that only keep compute units busy: what other kernels are compared with.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// Fp32 multiply-adds in registers. Output: one float for each block. Kernel::flops says how many.
Kernel MakePeakFlops(std::uint32_t blocks);

/// Each block reads its own `bytes` (a multiple of 4096) of input x `passes` times. Output: one
/// float for each block. Kernel::bytes_moved says how many bytes that are.
struct PeakReadSpec {
  std::uint32_t blocks = 1;
  std::size_t bytes = 4096, passes = 1;
};
Kernel MakePeakRead(const PeakReadSpec& spec);

}  // namespace lagoon
