#include "bench/sim/sim_kernels.h"

#include <utility>

namespace lagoon::bench {

Result<SimModel> FindKernels(const SimKernels& kernels, const GpuModel& gpu,
                             const std::string& model) {
  const auto own = kernels.own.find(model);
  if (own != kernels.own.end()) return own->second;
  if (!kernels.of.empty()) return MakeSimModelFor(gpu, kernels.of, model);
  Result<SimModel> made = MakeSimModel(gpu.name, model);
  if (made) return made;
  Error error = std::move(made).error();
  error.message += "; --kernels MODEL=FILE gives a model's kernels, --kernels-of those of a device";
  return tl::unexpected(std::move(error));
}

std::vector<std::string> ModelsWithKernels(const SimKernels& kernels, const GpuModel& gpu) {
  std::vector<std::string> models;
  for (const auto& [name, list] : kernels.own) models.push_back(name);
  const std::string& device = kernels.of.empty() ? gpu.name : kernels.of;
  for (const SimModelStatistics& one : SimModelTable()) {
    if (one.device != device || kernels.own.contains(std::string(one.model))) continue;
    models.emplace_back(one.model);
  }
  return models;
}

}  // namespace lagoon::bench
