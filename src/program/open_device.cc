#include "program/open_device.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/log.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/op_program.h"

namespace lagoon {
namespace {

Result<ComputeDevice> OpenCuda(const DeviceChoice& choice, int ordinal) {
  CudaDeviceOptions options;
  options.ordinal = ordinal;
  options.driver_library = choice.cuda_driver;
  options.silence = choice.cuda_silence;
  ComputeDevice opened;
  LAGOON_ASSIGN_OR_RETURN(opened.device, CreateCudaDevice(options));
  const cuda::Program& program =
      choice.cuda_program == nullptr ? cuda::OpProgram() : *choice.cuda_program;
  opened.kernels = cuda::CudaKernels(program, opened.device->info().units);
  return opened;
}

}  // namespace

std::optional<int> CudaOrdinal(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int ordinal = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), ordinal);
  if (error != std::errc() || end != name.data() + name.size() || ordinal < 0) return std::nullopt;
  return ordinal;
}

Result<ComputeDevice> OpenDevice(const DeviceChoice& choice) {
  if (choice.open) return choice.open();
  if (const std::optional<int> ordinal = CudaOrdinal(choice.name))
    return OpenCuda(choice, *ordinal);
  if (choice.name != "cpu") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("there is no device '{}'; it is 'cpu', or 'cuda:N' with the number of "
                            "a GPU: `lagoon devices` lists them",
                            choice.name));
  }
  CpuDeviceOptions options;
  options.workers = choice.workers;
  ComputeDevice opened;
  LAGOON_ASSIGN_OR_RETURN(opened.device, CreateCpuDevice(options));
  if (!BackgroundGivesWay()) {
    spdlog::warn(
        "the system refuses threads of its idle class, and of nice 19: best-effort work competes "
        "with real-time work, the server and its clients for the cores");
  }
  return opened;
}

}  // namespace lagoon
