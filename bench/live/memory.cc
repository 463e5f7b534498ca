#include "bench/live/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <functional>

#include "bench/client/bound_model.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/child.h"

namespace lagoon::bench {
namespace {

constexpr int kRuns = 3;
constexpr char kBase[] = "base";

// Peak memory of this process after some runs of the model, in MiB.
Result<double> PeakHere(const std::string& file) {
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice({.workers = 1}));
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<BoundModel> model,
                          BoundModel::Load(file, file, on));
  for (int i = 0; i < kRuns; ++i) LAGOON_RETURN_IF_ERROR(model->Run(*on.device));
  const double peak = PeakRssMib(getpid());
  if (peak > 0) return peak;
  return Fail(ErrorCode::kInternal, "the peak memory of this process is not known");
}

Result<double> PeakOfLagoon(const std::string& file) {
  return InChild<double>(file, [&] { return PeakHere(file); });
}

Result<double> PeakOfOnnxRuntime(const std::string& file, ComparatorOptions options) {
  options.threads = 1;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<ComparatorProcess> process,
                          ComparatorProcess::Start(file, options));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<double> latencies, process->Run(kRuns, 0));
  return PeakRssMib(process->info().at("pid").get<int>());
}

using PeakOf = std::function<Result<double>(const std::string& file)>;

}  // namespace

Status RunMemory(const MemoryOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository models,
                          TemporaryRepository::Link(options.zoo, options.models));
  const std::int64_t dims[] = {1, 3, 32, 32};
  LAGOON_RETURN_IF_ERROR(models.AddChannelMeans(kBase, dims));
  std::vector<std::pair<std::string, PeakOf>> sides = {{"lagoon", PeakOfLagoon}};
  if (options.against_onnxruntime) {
    sides.emplace_back("onnxruntime", [&](const std::string& file) {
      return PeakOfOnnxRuntime(file, options.onnxruntime);
    });
  }
  ProgressBar progress("bench memory", static_cast<int>(options.models.size() * sides.size()));
  std::vector<double> bases;
  for (const auto& [side, peak_of] : sides) {
    LAGOON_ASSIGN_OR_RETURN(const double base, peak_of(ModelFile(models.path(), kBase)));
    report.Metric("peak_base_mib." + side, base);
    bases.push_back(base);
  }
  for (const std::string& name : options.models) {
    std::vector<double> peaks;
    for (std::size_t i = 0; i < sides.size(); ++i) {
      Result<double> peak = sides[i].second(ModelFile(models.path(), name));
      if (!peak) return Annotate(name, std::move(peak).error());
      peaks.push_back(*peak - bases[i]);
      report.Metric(fmt::format("peak_mib.{}.{}", name, sides[i].first), peaks.back());
      progress.Step(name);
    }
    if (peaks.size() == 2) {
      report.Metric("memory_ratio_vs_onnxruntime." + name, peaks[0] / peaks[1]);
    }
  }
  return {};
}

}  // namespace lagoon::bench
