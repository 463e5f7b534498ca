#pragma once

// A GPU for tests: the fake driver, which runs the op bodies on the emulator as its kernels.

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/driver/program.h"
#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/testing/fake_cuda.h"
#include "program/open_device.h"

namespace lagoon::testing {

/// Kernels by name, as LAGOON_CUDA_ENTRY makes them for a C++ compiler.
using EmulatedEntries =
    std::map<std::string, void (*)(const cuda::GridParams& params, unsigned char* shared)>;

/// A program without a compiler: the emulator finds its entries by name.
class EmulatedProgram final : public cuda::Program {
 public:
  explicit EmulatedProgram(std::vector<cuda::EntryName> entries) : entries_(std::move(entries)) {}
  const std::string& name() const override { return name_; }
  std::span<const cuda::EntryName> entries() const override { return entries_; }
  Result<std::string> ImageFor(const cuda::GpuInfo&) const override { return name_; }

 private:
  const std::string name_ = "emulated";
  const std::vector<cuda::EntryName> entries_;
};

/// Restarts the fake driver with one GPU, for OpenDevice(). All devices of the driver must have
/// been destroyed. `more`: kernels in addition to those of the ops.
DeviceChoice StartEmulatedGpu(int multiprocessors, EmulatedEntries more = {});

/// The fake driver, for tests that inspect its calls or make it fail.
cuda::fake::FakeCuda& EmulatedDriver();

}  // namespace lagoon::testing
