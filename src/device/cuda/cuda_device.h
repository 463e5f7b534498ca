#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace lagoon {

struct CudaDeviceOptions {
  int ordinal = 0;
  std::string driver_library = "libcuda.so.1";
  std::size_t memory_limit_bytes = 0;  // limit of Allocate(); 0: all memory of the GPU
  /// Launches in one CUDA stream at once: a running one, and successors that depend on it.
  std::uint32_t depth = 4;
  /// A kernel's progress is reported after this many tiles, or after more for large kernels.
  std::uint32_t count_interval = 16;
  /// How long the device's thread looks for news before it begins to sleep between looks.
  Nanoseconds spin = std::chrono::microseconds(100);
  /// A GPU that has work and reports nothing for so long is lost; 0: Lagoon waits for ever. Between
  /// two reports of a grid its units do at most 16 tiles, or a 64th of a large grid.
  Nanoseconds silence = std::chrono::seconds(30);
};

/// An NVIDIA GPU. kUnavailable: there is no driver, or it does not start. kNotFound: there is no
/// such GPU. The message says what to do.
Result<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options);

}  // namespace lagoon
