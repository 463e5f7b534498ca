#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "program/lower/builder.h"

namespace lagoon {

/// The constants of one or more programs in device memory.
struct PackedWeights {
  Buffer memory;
  std::size_t bytes = 0;  // size of all constants that ops of the plans read
  /// By program and BufferId; undefined for buffers that are not such constants.
  std::vector<std::vector<std::size_t>> offsets;
};

/// Packs the constants and runs the load ops. Constants that several programs need alike are stored
/// once. Destroys each buffer's `fill` (and the ONNX bytes that it holds) as soon as the buffer is
/// packed. If the host cannot write device memory, packs into host memory and uploads everything at
/// once.
Result<PackedWeights> PackWeights(std::span<LoweredProgram> programs, DeviceControl& device);

}  // namespace lagoon
