#include "bench/sim/sim_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "bench/sim/cpu_kernel_lists.h"

namespace lagoon::bench {

Result<std::map<std::string, SimModel>> FindKernels(const SimKernels& kernels, const GpuModel& gpu,
                                                    const std::vector<std::string>& models) {
  const std::vector<std::string> known = ModelsWithKernels(kernels, gpu);
  std::map<std::string, SimModel> found = kernels.own;
  std::vector<std::string> missing;
  for (const std::string& model : models) {
    if (found.contains(model) || std::ranges::count(missing, model) > 0) continue;
    if (std::ranges::count(known, model) == 0) {
      missing.push_back(model);
      continue;
    }
    Result<SimModel> made = kernels.of.empty() ? MakeSimModel(gpu.name, model)
                                               : MakeSimModelFor(gpu, kernels.of, model);
    if (!made) return tl::unexpected(std::move(made).error());
    found.emplace(model, *std::move(made));
  }
  if (missing.empty()) return found;
  const std::string& device = kernels.of.empty() ? gpu.name : kernels.of;
  return Fail(
      ErrorCode::kNotFound,
      fmt::format("simulated device '{}' has no model '{}': it has {}; --kernels MODEL=FILE "
                  "gives a model's kernels (from CSV, Nsight Systems or PyTorch: "
                  "sim/device/README.md), --kernels-of those of a built-in device",
                  device, fmt::join(missing, "', '"),
                  known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

std::vector<std::string> ModelsWithKernels(const SimKernels& kernels, const GpuModel& gpu) {
  std::vector<std::string> models;
  for (const auto& [name, list] : kernels.own) models.push_back(name);
  const std::string& device = kernels.of.empty() ? gpu.name : kernels.of;
  const auto add = [&](std::string_view model) {
    if (!kernels.own.contains(std::string(model))) models.emplace_back(model);
  };
  for (const SimModelStatistics& one : SimModelTable()) {
    if (one.device == device) add(one.model);
  }
  if (device.starts_with("cpu")) std::ranges::for_each(CpuSimModels(), add);
  return models;
}

}  // namespace lagoon::bench
