#pragma once

// For tests of a GpuDevice over the fake driver: opens it, and reads what it asked the driver.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/testing/fake_device.h"

namespace lagoon::cuda::fake {

/// A device with the suite's bodies, on a fake driver that has just begun.
inline std::unique_ptr<Device> Open(const Settings& settings, const CudaDeviceOptions& options) {
  OpenFake().Reset(settings);
  conformance::cuda_form = SuiteImage;
  Result<std::unique_ptr<Device>> device = CreateCudaDevice(options);
  EXPECT_TRUE(device.has_value()) << device.error().message;
  return device ? *std::move(device) : nullptr;
}

inline std::unique_ptr<Device> Open(int units = 2) {
  return Open(EmulatedSettings(units), FakeOptions());
}

/// The calls of that name.
inline std::vector<Call> Named(const std::vector<Call>& log, const std::string& name) {
  std::vector<Call> found;
  std::copy_if(log.begin(), log.end(), std::back_inserter(found),
               [&](const Call& call) { return call.name == name; });
  return found;
}

/// The parameter of a cuLaunchKernel.
inline GridParams ParamsOf(const Call& launch) {
  GridParams params;
  EXPECT_EQ(launch.parameter.size(), sizeof(params));
  std::memcpy(&params, launch.parameter.data(), sizeof(params));
  return params;
}

}  // namespace lagoon::cuda::fake
