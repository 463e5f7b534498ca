#pragma once

// Versions of the kernels of a list, for padding (REEF 5.3).

#include <cstdint>
#include <vector>

#include "bench/sim/kernel_lists.h"

namespace lagoon {

/// A way to cut a kernel of a list into blocks.
struct SimKernelVersion {
  std::uint32_t shorter = 1;   // a block takes so many times less time than the list's
  std::uint32_t narrower = 1;  // a unit holds so many times more blocks, where threads limit it
  std::uint32_t blocks = 0;
  BlockDemand block;
  Nanoseconds time{0};  // the whole kernel, alone on the device
};

/// The versions of a kernel, at most 10; the list's own is the first. REEF does not publish them.
/// Assumed: blocks of a half, a quarter and an eighth of the time, which cost 4, 10 and 20 % more
/// work, and blocks with a half and a quarter of the threads, which take as long and as much less
/// of a unit; also both, with at most eight blocks for one of the list's. No version has blocks of
/// less than a microsecond, or of less than a warp.
std::vector<SimKernelVersion> VersionsOf(const SimModelKernel& kernel);

}  // namespace lagoon
