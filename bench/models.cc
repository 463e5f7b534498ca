#include "bench/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "bench/bound_model.h"
#include "bench/statistics.h"
#include "device/cpu/cpu_device.h"
#include "program/compile.h"
#include "program/run.h"

namespace lagoon::bench {
namespace {

constexpr int kWarmUpRuns = 3;

// Runs `model` back to back for `seconds`; appends latencies in milliseconds.
Status RunFor(BoundModel& model, Device& device, double seconds,
              std::vector<double>& latencies_ms) {
  const TimePoint end =
      Now() + std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
  do {
    const TimePoint begin = Now();
    LAGOON_RETURN_IF_ERROR(model.Run(device));
    latencies_ms.push_back(ToMilliseconds(Now() - begin));
  } while (Now() < end);
  return {};
}

// Last commit of what a kernel waited for, to its own first block.
Status MeasureGaps(BoundModel& model, Device& device, std::vector<double>& gaps_us) {
  const Plan& plan = model.instance().plan();
  std::vector<OpTimes> times(plan.ops.size());
  RunOptions options;
  options.times = times;
  LAGOON_RETURN_IF_ERROR(model.Run(device, options));
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    TimePoint ready;
    for (const std::uint32_t on : plan.ops[i].deps) ready = std::max(ready, times[on].complete);
    if (!plan.ops[i].deps.empty()) gaps_us.push_back(ToMicroseconds(times[i].placed - ready));
  }
  return {};
}

void ReportPlan(const std::string& name, const Plan& plan, Report& report) {
  constexpr double kMib = 1 << 20;
  Nanoseconds longest{0};
  for (const PlanOp& op : plan.ops) longest = std::max(longest, op.cost.block);
  report.Metric("kernels." + name, static_cast<double>(plan.ops.size()));
  report.Metric("block_us_max." + name, ToMicroseconds(longest));
  report.Metric("weights_mib." + name, static_cast<double>(plan.weight_bytes) / kMib);
  report.Metric("arena_mib." + name, static_cast<double>(plan.arena_bytes) / kMib);
}

Status BenchModel(const std::string& name, std::uint32_t workers, const ModelsOptions& options,
                  Progress& progress, Report& report) {
  const std::string file =
      (std::filesystem::path(options.zoo) / name / "1" / "model.onnx").string();
  CpuDeviceOptions device_options;
  device_options.workers = workers;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, CreateCpuDevice(device_options));
  const TimePoint begin = Now();
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<BoundModel> model, BoundModel::Load(file, name, *device));
  const double load_ms = ToMilliseconds(Now() - begin);
  if (options.tune) {
    model.reset();
    LAGOON_ASSIGN_OR_RETURN(model, BoundModel::Load(file, name, *device, /*tune=*/true));
  }
  std::unique_ptr<OnnxRuntimeProcess> onnxruntime;
  if (options.against_onnxruntime) {
    OnnxRuntimeOptions theirs = options.onnxruntime;
    theirs.threads = static_cast<int>(workers);
    LAGOON_ASSIGN_OR_RETURN(onnxruntime, OnnxRuntimeProcess::Start(file, theirs));
    report.Metric("load_ms." + name + ".onnxruntime", onnxruntime->info().value("load_ms", 0.0));
  }
  for (int i = 0; i < kWarmUpRuns; ++i) LAGOON_RETURN_IF_ERROR(model->Run(*device));

  const std::string suffix = fmt::format("{}.w{}", name, workers);
  std::vector<double> ours_ms, theirs_ms, gaps_us;
  for (int round = 0; round < options.rounds; ++round) {
    LAGOON_RETURN_IF_ERROR(RunFor(*model, *device, options.seconds, ours_ms));
    LAGOON_RETURN_IF_ERROR(MeasureGaps(*model, *device, gaps_us));
    progress.Step(suffix);
    if (onnxruntime == nullptr) continue;
    const int runs = std::max(1, static_cast<int>(options.seconds * 1e3 / Median(ours_ms)));
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, onnxruntime->Run(runs, 1));
    for (const double latency : us) theirs_ms.push_back(latency / 1e3);
    progress.Step(suffix);
  }

  report.Metric("latency_ms_p50." + suffix + ".lagoon", Median(ours_ms));
  if (!theirs_ms.empty()) {
    report.Metric("latency_ms_p50." + suffix + ".onnxruntime", Median(theirs_ms));
    report.Metric("latency_ratio_vs_onnxruntime." + suffix, Median(ours_ms) / Median(theirs_ms));
  }
  if (workers == options.workers.back()) {
    LAGOON_RETURN_IF_ERROR(model->Profile(*device, 5));
    ReportPlan(name, model->instance().plan(), report);
    report.Metric("load_ms." + name, load_ms);
    if (!gaps_us.empty()) report.Metric("kernel_gap_us_p50." + name, Median(gaps_us));
  }
  return {};
}

}  // namespace

Status RunModels(const ModelsOptions& options, Report& report) {
  const std::size_t turns = options.models.size() * options.workers.size() *
                            static_cast<std::size_t>(options.rounds) *
                            (options.against_onnxruntime ? 2 : 1);
  Progress progress("bench models", static_cast<int>(turns));
  for (const std::string& name : options.models) {
    for (const std::uint32_t workers : options.workers) {
      if (Status status = BenchModel(name, workers, options, progress, report); !status) {
        return Annotate(fmt::format("{} with {} workers", name, workers),
                        std::move(status).error());
      }
    }
  }
  return {};
}

}  // namespace lagoon::bench
