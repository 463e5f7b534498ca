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
  std::size_t memory_limit_bytes = 0;  // of Allocate(); 0: what the GPU has
  /// Launches in one CUDA stream at once: one that runs, and successors that depend on it.
  std::uint32_t depth = 4;
  /// A kernel's progress is reported after every so many tiles, or more for large ones.
  std::uint32_t count_interval = 16;
  /// How long the device's thread looks for news before it begins to sleep in between.
  Nanoseconds spin = std::chrono::microseconds(100);
};

/// An NVIDIA GPU. kUnavailable when there is no driver or it does not start, kNotFound when it has
/// no such GPU; the message says what to do.
Result<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options);

}  // namespace lagoon
