#include "bench/live/memory.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "bench/client/bound_model.h"
#include "bench/client/temporary_repository.h"

namespace lagoon::bench {
namespace {

constexpr int kRuns = 3;
constexpr char kBase[] = "base";

Status LoadAndRun(const std::string& file) {
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice({.workers = 1}));
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<BoundModel> model,
                          BoundModel::Load(file, file, on));
  for (int i = 0; i < kRuns; ++i) LAGOON_RETURN_IF_ERROR(model->Run(*on.device));
  return {};
}

// Runs the model in a child process, so that no memory of an earlier model counts.
Result<double> PeakOfLagoon(const std::string& file) {
  int ends[2];
  if (pipe(ends) != 0) return Fail(ErrorCode::kInternal, "no pipe for a child");
  std::fflush(nullptr);  // else the child would write buffered output a second time
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const Status status = LoadAndRun(file);
    if (!status) std::fprintf(stderr, "%s\n", status.error().message.c_str());
    const double peak = status ? PeakRssMib(getpid()) : 0;
    const bool told = write(ends[1], &peak, sizeof peak) == sizeof peak;
    _exit(status && told ? 0 : 1);
  }
  close(ends[1]);
  double peak = 0;
  const bool heard = child > 0 && read(ends[0], &peak, sizeof peak) == sizeof peak;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (!heard || peak <= 0) {
    return Fail(ErrorCode::kInternal, fmt::format("'{}' did not run in a child", file));
  }
  return peak;
}

Result<double> PeakOfOnnxRuntime(const std::string& file, OnnxRuntimeOptions options) {
  options.threads = 1;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxRuntimeProcess> process,
                          OnnxRuntimeProcess::Start(file, options));
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
