#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/command.h"
#include "base/json.h"
#include "device/cuda/driver/driver.h"
#include "device/host/machine.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

struct DevicesWords {
  bool json = false;
  std::string driver = "libcuda.so.1";
};

Json DescribeCpu() {
  Json levels = Json::array();
  for (const CpuLevel level : MachineCpuLevels()) levels.push_back(NameOf(level));
  return {{"name", "cpu"},
          {"description", ProcessorName()},
          {"units", UsableCoreCount()},
          {"level", NameOf(ActiveCpuLevel())},
          {"levels", levels}};
}

Json DescribeCuda(const cuda::GpuInfo& gpu) {
  return {{"name", fmt::format("cuda:{}", gpu.ordinal)},
          {"description", gpu.name},
          {"units", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)}};
}

// The GPUs, or the reason why there are none.
Result<Json> ListCuda(const std::string& library) {
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<const cuda::Driver> driver,
                          cuda::Driver::Load(library));
  LAGOON_ASSIGN_OR_RETURN(const int count, cuda::CountGpus(*driver));
  Json gpus = Json::array();
  for (int i = 0; i < count; ++i) {
    LAGOON_ASSIGN_OR_RETURN(const cuda::GpuInfo gpu, cuda::DescribeGpu(*driver, i));
    gpus.push_back(DescribeCuda(gpu));
  }
  return gpus;
}

void ListDevices(const DevicesWords& words) {
  Json devices = Json::array({DescribeCpu()});
  const Result<Json> gpus = ListCuda(words.driver);
  if (gpus) devices.insert(devices.end(), gpus->begin(), gpus->end());
  if (words.json) {
    Json all = {{"devices", devices}};
    if (!gpus) all["no_cuda"] = gpus.error().message;
    std::printf("%s\n", DumpJson(all, 2).c_str());
    return;
  }
  for (const Json& device : devices) {
    std::string line =
        fmt::format("{}\t{}, {} units", device["name"].get<std::string>(),
                    device["description"].get<std::string>(), device["units"].get<std::uint32_t>());
    if (device.contains("memory_bytes")) {
      const auto bytes = device["memory_bytes"].get<double>();
      line += fmt::format(", {:.1f} GiB, compute capability {}", bytes / (1 << 30),
                          device["compute_capability"].get<std::string>());
    }
    if (device.contains("level")) {
      line += fmt::format(", level {} of {}", device["level"].get<std::string>(),
                          NamesOf(MachineCpuLevels()));
    }
    std::printf("%s\n", line.c_str());
  }
  if (!gpus) std::printf("no cuda\t%s\n", gpus.error().message.c_str());
}

}  // namespace

void AddDevices(CLI::App& app) {
  auto words = std::make_shared<DevicesWords>();
  CLI::App* command =
      app.add_subcommand("devices", "List the devices of this machine, or why there is no GPU");
  command->add_flag("--json", words->json, "Print JSON");
  command->add_option("--cuda-driver", words->driver, "File name or path of the CUDA driver")
      ->capture_default_str();
  command->callback([words] { ListDevices(*words); });
}

}  // namespace lagoon
