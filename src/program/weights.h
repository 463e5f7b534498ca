#pragma once

#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "program/builder.h"

namespace lagoon {

/// The constants of a program in device memory.
struct PackedWeights {
  Buffer memory;
  std::size_t bytes = 0;             // of all constants that ops of the plan read
  std::vector<std::size_t> offsets;  // by BufferId; meaningless for what is not among them
};

/// Packs the constants and runs the load ops. Drops each buffer's `fill` (and the ONNX bytes that
/// it holds) as soon as it is packed. Device memory must be writable by the host, as a CPU's is.
Result<PackedWeights> PackWeights(LoweredProgram& program, DeviceControl& device);

}  // namespace lagoon
