#pragma once

// A GPU for tests: the fake driver, whose kernels are the op bodies on the emulator.

#include <map>
#include <string>

#include "device/cuda/launch_table.cuh"
#include "device/cuda/testing/fake_cuda.h"
#include "program/open_device.h"

namespace lagoon::testing {

/// Kernels by name, as LAGOON_CUDA_ENTRY makes them for a C++ compiler.
using EmulatedEntries =
    std::map<std::string, void (*)(const cuda::LaunchTable& table, unsigned char* shared)>;

/// Starts the fake driver anew, with one GPU; every device of it must be gone. For OpenDevice().
/// `more`: kernels beside those of the ops.
DeviceChoice StartEmulatedGpu(int multiprocessors, EmulatedEntries more = {});

/// To look at what the driver was asked, and to let it fail.
cuda::fake::FakeCuda& EmulatedDriver();

}  // namespace lagoon::testing
