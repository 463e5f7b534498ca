#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "program/builder.h"

namespace lagoon {

/// The constants of one or more programs in device memory.
struct PackedWeights {
  Buffer memory;
  std::size_t bytes = 0;  // of all constants that ops of the plans read
  /// By program and BufferId; meaningless for what is not among them.
  std::vector<std::vector<std::size_t>> offsets;
};

/// Packs the constants and runs the load ops; what several programs need alike is there once. Drops
/// each buffer's `fill` (and the ONNX bytes that it holds) as soon as it is packed. Where the host
/// cannot write device memory, they are packed in host memory and uploaded at once.
Result<PackedWeights> PackWeights(std::span<LoweredProgram> programs, DeviceControl& device);

}  // namespace lagoon
