#include "apps/bench/simulated.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "apps/command.h"
#include "bench/import/kernel_files.h"

namespace lagoon {
namespace {

constexpr std::string_view kPrefix = "sim:";

// Dies if no kernel lists are those of the device of --kernels-of.
void CheckListsOf(const std::string& device, const GpuModel& gpu) {
  if (!bench::ModelsWithKernels({.of = device}, gpu).empty()) return;
  std::vector<std::string> with_lists;
  for (const std::string_view name : BuiltInGpuModels()) {
    const std::string one(name);
    if (!bench::ModelsWithKernels({.of = one}, gpu).empty()) with_lists.push_back(one);
  }
  Die(fmt::format(
      "--kernels-of '{}': there are no kernel lists of this device; there are those of {}", device,
      fmt::join(with_lists, ", ")));
}

// The two parts of MODEL=FILE.
std::pair<std::string, std::string> SplitWord(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == 0 || equals == word.npos || equals + 1 == word.size()) {
    Die(fmt::format("--kernels '{}': the form is MODEL=FILE", word));
  }
  return {word.substr(0, equals), word.substr(equals + 1)};
}

}  // namespace

const std::vector<std::string> kOfRealDevices = {"--zoo", "--workers", "--no-onnxruntime",
                                                 "--comparator-worker", "--cuda-driver"};

void KernelWords::AddTo(nlohmann::json& configuration) const {
  if (!files.empty()) configuration["kernels"] = files;
  if (!of.empty()) configuration["kernels_of"] = of;
}

void AddKernels(CLI::App& command, KernelWords& words) {
  command.add_option("--kernels", words.files,
                     "On a simulated device: MODEL=FILE, the kernels of a model from CSV, from "
                     "`nsys stats --report cuda_gpu_trace --format csv`, or from the JSON of "
                     "PyTorch's profiler (sim/device/README.md)");
  command.add_option("--kernels-of", words.of,
                     "On a simulated device: other models have the kernels of this built-in one");
}

bool IsSimulated(const std::string& device) {
  if (device == "cpu" || device.starts_with("cuda:")) return false;
  if (device.starts_with(kPrefix)) return true;
  Die(fmt::format("there is no device '{}'; there are cpu, cuda:N and sim:NAME", device));
}

GpuModel SimulatedGpu(const std::string& device) {
  Result<GpuModel> gpu = LoadGpuModel(device.substr(kPrefix.size()));
  if (!gpu) Die(gpu.error().message);
  return *std::move(gpu);
}

bench::SimKernels ReadKernels(const KernelWords& words, const GpuModel& gpu,
                              const std::vector<std::string>& models) {
  bench::SimKernels kernels{.of = words.of};
  if (!words.of.empty()) CheckListsOf(words.of, gpu);
  const std::set<std::string> used(models.begin(), models.end());
  for (const std::string& word : words.files) {
    const auto [name, file] = SplitWord(word);
    if (!used.empty() && !used.contains(name)) {
      Die(fmt::format("--kernels '{}': this run has no model '{}'; it has {}", word, name,
                      fmt::join(used, ", ")));
    }
    Result<SimModel> model = ReadKernelFile(name, file, gpu);
    if (!model) Die(model.error().message);
    if (!kernels.own.emplace(name, *std::move(model)).second) {
      Die(fmt::format("--kernels has model '{}' twice", name));
    }
  }
  return kernels;
}

bench::SimWatch WatchOf(Tracing& tracing, std::size_t systems) {
  if (!tracing.wanted()) return {};
  bench::SimWatch watch;
  watch.begin = [&tracing, systems](Device& device, const std::string& system) {
    TraceRecorder* const recorder =
        systems == 1 ? tracing.Start() : tracing.StartPart(system, systems);
    recorder->Attach(device);
    return recorder;
  };
  watch.end = [&tracing]() -> Status {
    tracing.Finish();
    return {};
  };
  return watch;
}

void RefuseOptions(const CLI::App& command, const std::vector<std::string>& names,
                   const std::string& device) {
  for (const std::string& name : names) {
    if (command.get_option_no_throw(name) == nullptr || command.count(name) == 0) continue;
    Die(fmt::format("{} has no effect on device '{}': leave it out", name, device));
  }
}

void RefuseKernels(const CLI::App& command, const std::string& device) {
  for (const char* name : {"--kernels", "--kernels-of"}) {
    if (command.count(name) == 0) continue;
    Die(fmt::format("{} needs a simulated device, not '{}': add --device sim:NAME", name, device));
  }
}

}  // namespace lagoon
