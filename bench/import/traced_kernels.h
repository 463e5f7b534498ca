#pragma once

// What the files of this folder share: kernels as files have them, before a device is known.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// A kernel of a file. Numbers are as they stand there: nothing is checked yet.
struct TracedKernel {
  std::string where;  // "line 12", for messages
  double start_ns = 0;
  double time_ns = 0;
  std::optional<double> block_ns;
  double blocks = 0;
  double threads = 0, registers_per_thread = 0, shared_bytes = 0, memory_bytes = 0;  // of a block
  std::string restart;  // as ReadKernelFile() has it; empty: nothing is said
  std::string device;   // its name or number; empty: nothing is said
};

/// Reads rows of CSV, ours or those of Nsight Systems, at most one more than kMostListKernels.
/// Errors have no subject.
Result<std::vector<TracedKernel>> ReadKernelRows(std::string_view text);

/// Reads the events of PyTorch's profiler. Errors have no subject.
Result<std::vector<TracedKernel>> ReadProfilerEvents(std::string_view text);

}  // namespace lagoon
