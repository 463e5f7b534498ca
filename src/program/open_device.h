#pragma once

// Devices by name, each with the maker of its kernels.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "device/device.h"
#include "kernels/kernel_maker.h"

namespace lagoon {

namespace cuda {
class Program;  // device/cuda/driver/program.h
}

struct ComputeDevice;

struct DeviceChoice {
  std::string name = "cpu";                  // or "cuda:N": the driver's GPU number N
  std::uint32_t workers = 0;                 // threads of "cpu"; 0: one per core
  std::string cuda_driver = "libcuda.so.1";  // file name or path
  /// CudaDeviceOptions::silence
  Nanoseconds cuda_silence = std::chrono::seconds(30);
  /// Contains the entries of the op bodies and outlives the device. Null: cuda::OpProgram().
  const cuda::Program* cuda_program = nullptr;
  /// Opens a device of the program's own, in place of `name`. Null: there is none.
  std::function<Result<ComputeDevice>()> open = {};
};

/// A device and the maker of its kernels (CompileOptions::kernels).
struct ComputeDevice {
  std::unique_ptr<const KernelMaker> kernels;  // null: the CPU's
  std::unique_ptr<Device> device;              // destroyed before `kernels`
};

/// The N of "cuda:N"; nothing for any other name.
std::optional<int> CudaOrdinal(std::string_view name);

/// kInvalidArgument if there is no device of that name; otherwise the errors of CreateCpuDevice and
/// CreateCudaDevice, which say what is missing and what to do.
Result<ComputeDevice> OpenDevice(const DeviceChoice& choice);

}  // namespace lagoon
