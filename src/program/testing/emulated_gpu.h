#pragma once

// A GPU for tests: the fake driver, whose kernels are the op bodies on the emulator.

#include "device/cuda/testing/fake_cuda.h"
#include "program/open_device.h"

namespace lagoon::testing {

/// Starts the fake driver anew, with one GPU; every device of it must be gone. For OpenDevice().
DeviceChoice StartEmulatedGpu(int multiprocessors);

/// To look at what the driver was asked, and to let it fail.
cuda::fake::FakeCuda& EmulatedDriver();

}  // namespace lagoon::testing
