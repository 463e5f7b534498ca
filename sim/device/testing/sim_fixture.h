#pragma once

// Simulated devices for tests: a GPU model whose every latency is zero, and launches by name.

#include <memory>
#include <utility>

#include "device/conformance/suite.h"
#include "sim/device/sim_device.h"

namespace lagoon::sim_testing {

using conformance::Record;
using conformance::Session;

/// Units of 16 blocks, 1024 threads, 65536 registers, 64 KiB; a copy moves 1000 bytes per
/// microsecond. Everything else takes no time.
inline GpuModel Ideal(std::uint32_t units) {
  GpuModel gpu;
  gpu.name = "ideal";
  SimConstants& c = gpu.constants;
  c.units = units;
  c.blocks_per_unit = 16;
  c.threads_per_unit = 1024;
  c.registers_per_unit = 65536;
  c.shared_bytes_per_unit = 65536;
  c.memory_mib = 64;
  c.memory_bytes_per_us = 1'000'000;
  c.hardware_queues = 32;
  c.copy_engines = 1;
  c.copy_bytes_per_us = 1000;
  c.check_interval_ns = 5000;
  c.share_granule = 1;
  return gpu;
}

inline std::unique_ptr<SimDevice> Make(SimDeviceOptions options) {
  Result<std::unique_ptr<SimDevice>> device = SimDevice::Create(options);
  if (!device) {
    ADD_FAILURE() << device.error().message;
    std::abort();
  }
  return *std::move(device);
}

inline std::unique_ptr<SimDevice> Make(const GpuModel& gpu) {
  SimDeviceOptions options;
  options.gpu = gpu;
  return Make(options);
}

inline KernelHandle LoadKernel(Device& device, const BlockDemand& block) {
  const Result<KernelHandle> kernel = device.Load({"kernel", nullptr}, {0, block});
  EXPECT_TRUE(kernel.has_value());
  return kernel.value_or(KernelHandle{});
}

/// Time from `from` (default: the start of the device) to `at`.
inline double Microseconds(TimePoint at, TimePoint from = TimePoint(std::chrono::seconds(1))) {
  return ToMicroseconds(at - from);
}

}  // namespace lagoon::sim_testing
