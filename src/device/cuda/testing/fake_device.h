#pragma once

// A GpuDevice over the fake driver and the emulator, with the suite's bodies.

#include <dlfcn.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/paths.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver/program.h"
#include "device/cuda/testing/fake_cuda.h"

namespace lagoon::cuda::fake {

/// The fake driver library's control object; the library stays open.
inline FakeCuda& OpenFake() {
  static FakeCuda* const fake = [] {
    void* const library = dlopen(FakeCudaLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
    LAGOON_CHECK(library != nullptr);
    const auto call = reinterpret_cast<FakeCudaCall>(dlsym(library, kFakeCudaSymbol));
    LAGOON_CHECK(call != nullptr);
    return call();
  }();
  return *fake;
}

/// Settings of one GPU of `multiprocessors`, with emulated kernels.
Settings EmulatedSettings(int multiprocessors);

/// The CUDA form of a body of the suite; null: it has none.
const CudaImage* SuiteImage(Body body);

inline CudaDeviceOptions FakeOptions() {
  CudaDeviceOptions options;
  options.driver_library = FakeCudaLibrary();
  return options;
}

}  // namespace lagoon::cuda::fake
