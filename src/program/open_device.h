#pragma once

// Devices by name, each with the kernels that models are compiled to for it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "device/device.h"
#include "kernels/kernel_maker.h"

namespace lagoon {

namespace cuda {
class Program;  // device/cuda/program.h
}

struct DeviceChoice {
  std::string name = "cpu";                  // or "cuda:N": GPU N of the driver's
  std::uint32_t workers = 0;                 // threads of "cpu"; 0: one per core
  std::string cuda_driver = "libcuda.so.1";  // file name or path
  /// Has the entries of the op bodies, and outlives the device. Null: cuda::OpProgram().
  const cuda::Program* cuda_program = nullptr;
};

/// A device and what makes its kernels (CompileOptions::kernels).
struct ComputeDevice {
  std::unique_ptr<const KernelMaker> kernels;  // null: the CPU's
  std::unique_ptr<Device> device;              // goes before them
};

/// The N of "cuda:N"; of any other name nothing.
std::optional<int> CudaOrdinal(std::string_view name);

/// kInvalidArgument when there is no device of that name; else as CreateCpuDevice and
/// CreateCudaDevice, who say what is missing and what to do.
Result<ComputeDevice> OpenDevice(const DeviceChoice& choice);

}  // namespace lagoon
