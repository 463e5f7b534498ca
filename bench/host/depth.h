#pragma once

#include <cstdint>
#include <vector>

#include "bench/report/report.h"

namespace lagoon::bench {

struct DepthOptions {
  std::uint32_t workers = 1;  // compute units of the CPU device; 0: one per core
  std::vector<std::uint32_t> depths = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  double kernel_us = 20;  // time of a kernel's only block
  double window_seconds = 1;
  int windows = 5;  // of each depth, interleaved
  std::uint32_t seed = 1;
};

/// Measures what the depth of the device's queue costs the host (REEF Figure 21), in real time on
/// the CPU device: a best-effort job of 256 kernels runs again and again under `reset`. Metrics,
/// medians over windows that the host did not disturb, with intervals, for a depth D:
///   host_cpu_fraction.depthD    processor time of the process beside that of blocks, of the window
///   host_us_per_kernel.depthD   the same for each kernel
///   kernel_gap_us.depthD        time of a kernel in the job, less that of the kernel's block
Status RunDepth(const DepthOptions& options, Report& report);

}  // namespace lagoon::bench
