#include "device/cuda/driver/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace lagoon::cuda {
namespace {

// cuGetProcAddress_v2. `status` says why a symbol is missing.
using FindCall = Code (*)(const char* symbol, void** call, int version, std::uint64_t flags,
                          int* status);

constexpr int kGreenContextsVersion = 12050;

std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Result<int> Attribute(const Driver& driver, DeviceAttribute attribute, Ordinal device) {
  int value = 0;
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.device_attribute(&value, static_cast<int>(attribute), device),
                   fmt::format("cuDeviceGetAttribute({})", static_cast<int>(attribute))));
  return value;
}

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::Load(const std::string& library) {
  std::shared_ptr<Driver> driver(new Driver);
  LAGOON_RETURN_IF_ERROR(driver->Resolve(library));
  LAGOON_RETURN_IF_ERROR(driver->Start());
  return std::shared_ptr<const Driver>(std::move(driver));
}

Status Driver::Resolve(const std::string& library) {
  handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle_ == nullptr) {
    const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread, in glibc
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("no CUDA driver: cannot open '{}' ({}); install NVIDIA's driver for CUDA "
                    "{} or newer, or use device 'cpu'",
                    library, why == nullptr ? "unknown" : why, VersionText(kOldestVersion)));
  }
  void* const symbol = dlsym(handle_, "cuGetProcAddress_v2");
  if (symbol == nullptr) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("the CUDA driver '{}' is too old: it has no cuGetProcAddress_v2; "
                            "install one for CUDA {} or newer",
                            library, VersionText(kOldestVersion)));
  }
  const auto find = reinterpret_cast<FindCall>(symbol);
  const auto resolve = [&](const char* name, void** call) -> Status {
    int status = 0;
    const Code code = find(name, call, kOldestVersion, 0, &status);
    if (code == kSuccess && *call != nullptr) return {};
    return Fail(ErrorCode::kUnavailable,
                fmt::format("the CUDA driver '{}' has no {} of CUDA {} (error {}, status {}); "
                            "install a newer one",
                            library, name, VersionText(kOldestVersion), code, status));
  };
#define LAGOON_CUDA_RESOLVE(member, name, parameters) \
  LAGOON_RETURN_IF_ERROR(resolve(name, reinterpret_cast<void**>(&(member))));
  LAGOON_CUDA_DRIVER_CALLS(LAGOON_CUDA_RESOLVE)
#undef LAGOON_CUDA_RESOLVE
  const auto look_for = [&](const char* name, void** call) {
    int status = 0;
    const Code code = find(name, call, kGreenContextsVersion, 0, &status);
    has_green_contexts_ = has_green_contexts_ && code == kSuccess && *call != nullptr;
  };
#define LAGOON_CUDA_LOOK_FOR(member, name, parameters) \
  look_for(name, reinterpret_cast<void**>(&(member)));
  LAGOON_CUDA_GREEN_CALLS(LAGOON_CUDA_LOOK_FOR)
#undef LAGOON_CUDA_LOOK_FOR
  return {};
}

Status Driver::Start() {
  // First, because an old driver may not know the calls below.
  LAGOON_RETURN_IF_ERROR(Check(driver_version(&version_), "cuDriverGetVersion"));
  if (version_ < kOldestVersion) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("the CUDA driver is of CUDA {}; install one for {} or newer",
                            VersionText(version_), VersionText(kOldestVersion)));
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): before the driver has threads
  constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
  setenv(kVariable, std::to_string(kMostConnections).c_str(), /*overwrite=*/0);
  const int connections = std::atoi(std::getenv(kVariable));
  // NOLINTEND(concurrency-mt-unsafe)
  if (connections > 0) {
    connections_ = std::min(static_cast<std::uint32_t>(connections), kMostConnections);
  }
  const Code code = init(0);
  if (code == kSuccess) return {};
  const char* const hint = code == kNoDevice
                               ? "no GPU is visible: look at CUDA_VISIBLE_DEVICES and nvidia-smi"
                               : "look at nvidia-smi and the permissions of /dev/nvidia*";
  return Fail(ErrorCode::kUnavailable, fmt::format("cuInit: {}; {}", Describe(code), hint));
}

std::string Driver::Describe(Code code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(code, &name) != kSuccess || name == nullptr) return fmt::format("error {}", code);
  if (error_text(code, &text) != kSuccess || text == nullptr) text = "no description";
  return fmt::format(
      "{} ({}){}", name, text,
      NeedsNewProcess(code) ? "; from now on the driver refuses this process: restart it" : "");
}

Status Driver::Check(Code code, const std::string& call) const {
  if (code == kSuccess) return {};
  const bool exhausted =
      code == kOutOfMemory || code == kInvalidResourceType || code == kInvalidResourceConfiguration;
  return Fail(exhausted ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
              fmt::format("{}: {}", call, Describe(code)));
}

Result<int> CountGpus(const Driver& driver) {
  int count = 0;
  LAGOON_RETURN_IF_ERROR(driver.Check(driver.device_count(&count), "cuDeviceGetCount"));
  return count;
}

Result<GpuInfo> DescribeGpu(const Driver& driver, int ordinal) {
  LAGOON_ASSIGN_OR_RETURN(const int count, CountGpus(driver));
  if (ordinal < 0 || ordinal >= count) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no GPU {}: the driver has {}", ordinal, count));
  }
  GpuInfo info;
  info.ordinal = ordinal;
  info.driver_version = driver.version();
  Ordinal device = 0;
  LAGOON_RETURN_IF_ERROR(driver.Check(driver.device(&device, ordinal), "cuDeviceGet"));
  std::array<char, 256> name{};
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.device_name(name.data(), static_cast<int>(name.size()) - 1, device),
                   "cuDeviceGetName"));
  info.name = name.data();
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.device_memory(&info.memory_bytes, device), "cuDeviceTotalMem"));
  LAGOON_ASSIGN_OR_RETURN(info.major, Attribute(driver, DeviceAttribute::kMajor, device));
  LAGOON_ASSIGN_OR_RETURN(info.minor, Attribute(driver, DeviceAttribute::kMinor, device));
  LAGOON_ASSIGN_OR_RETURN(const int units,
                          Attribute(driver, DeviceAttribute::kMultiprocessors, device));
  LAGOON_ASSIGN_OR_RETURN(const int shared,
                          Attribute(driver, DeviceAttribute::kSharedBytesOptin, device));
  info.multiprocessors = static_cast<std::uint32_t>(units);
  info.shared_bytes = static_cast<std::size_t>(shared);
  return info;
}

}  // namespace lagoon::cuda
