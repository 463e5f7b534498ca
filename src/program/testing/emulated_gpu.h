#pragma once

// A GPU for tests: the fake driver, whose kernels are the op bodies on the emulator.

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/launch_table.cuh"
#include "device/cuda/program.h"
#include "device/cuda/testing/fake_cuda.h"
#include "program/open_device.h"

namespace lagoon::testing {

/// Kernels by name, as LAGOON_CUDA_ENTRY makes them for a C++ compiler.
using EmulatedEntries =
    std::map<std::string, void (*)(const cuda::LaunchTable& table, unsigned char* shared)>;

/// A program without a compiler: the emulator knows its entries by their names.
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

/// Starts the fake driver anew, with one GPU; every device of it must be gone. For OpenDevice().
/// `more`: kernels beside those of the ops.
DeviceChoice StartEmulatedGpu(int multiprocessors, EmulatedEntries more = {});

/// To look at what the driver was asked, and to let it fail.
cuda::fake::FakeCuda& EmulatedDriver();

}  // namespace lagoon::testing
