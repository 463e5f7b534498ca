#include "bench/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "bench/agreement.h"
#include "bench/bound_model.h"
#include "bench/statistics.h"
#include "device/observer.h"
#include "program/compile.h"
#include "program/run.h"

namespace lagoon::bench {
namespace {

constexpr int kWarmUpRuns = 3;
constexpr double kMib = 1 << 20;

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
  Nanoseconds longest{0};
  for (const PlanOp& op : plan.ops) longest = std::max(longest, op.cost.block);
  report.Metric("kernels." + name, static_cast<double>(plan.ops.size()));
  report.Metric("block_us_max." + name, ToMicroseconds(longest));
  report.Metric("weights_mib." + name, static_cast<double>(plan.weight_bytes) / kMib);
  report.Metric("arena_mib." + name, static_cast<double>(plan.arena_bytes) / kMib);
}

/// One model with one number of workers and one batch size.
struct Run {
  std::string name;
  std::uint32_t workers = 1;  // 0: the device has none
  std::int64_t batch = 1;

  /// "w2.b1", on a GPU "b1".
  std::string Setting() const {
    return workers == 0 ? fmt::format("b{}", batch) : fmt::format("w{}.b{}", workers, batch);
  }
  std::string Suffix() const { return name + "." + Setting(); }
};

/// Whether the file lets the caller choose the batch.
bool TakesBatch(const Plan& plan, std::int64_t batch) {
  return std::any_of(plan.inputs.begin(), plan.inputs.end(), [&](const PlanTensor& input) {
    return !input.spec.dims.empty() && input.spec.dims[0] == batch;
  });
}

/// Collects for how long blocks ran on a core, on a device of one worker. Transfers count too.
class Meter final : public DeviceObserver {
 public:
  void OnPlaced(const DeviceBlock&) override { begin_ = ThreadCpuTime(); }
  void OnEnded(const DeviceBlock&, TimePoint, bool) override {
    us_.push_back(ToMicroseconds(ThreadCpuTime() - begin_));
  }
  const std::vector<double>& us() const { return us_; }

 private:
  Nanoseconds begin_{0};
  std::vector<double> us_;
};

Status MeasureBlocks(const std::string& name, const ModelsOptions& options, Precision precision,
                     Report& report) {
  constexpr int kRuns = 5;
  Meter meter;  // outlives the device, whose only worker calls it
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice({.workers = 1}));
  Device* const device = on.device.get();
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<BoundModel> model,
                          BoundModel::Load(ModelFile(options.zoo, name), name, on,
                                           {.tune = options.tune, .precision = precision}));
  LAGOON_RETURN_IF_ERROR(model->Run(*device));
  device->SetObserver(&meter);
  for (int run = 0; run < kRuns; ++run) LAGOON_RETURN_IF_ERROR(model->Run(*device));
  const std::string suffix = precision == Precision::kBf16 ? ".bf16" : "";
  report.Metric("block_us_p99." + name + suffix, Percentile(meter.us(), 99));
  return {};
}

/// Who takes turns on one device. The last two may be null.
struct Sides {
  BoundModel& ours;
  BoundModel* bf16;
  OnnxRuntimeProcess* onnxruntime;
};

/// Latencies in milliseconds, and the gaps between our kernels.
struct Samples {
  std::vector<double> ours_ms, bf16_ms, theirs_ms, gaps_us;
};

Result<Samples> TakeTurns(const Sides& sides, Device& device, const std::string& label,
                          const ModelsOptions& options, Progress& progress) {
  Samples samples;
  for (int i = 0; i < kWarmUpRuns; ++i) {
    LAGOON_RETURN_IF_ERROR(sides.ours.Run(device));
    if (sides.bf16 != nullptr) LAGOON_RETURN_IF_ERROR(sides.bf16->Run(device));
  }
  for (int round = 0; round < options.rounds; ++round) {
    LAGOON_RETURN_IF_ERROR(RunFor(sides.ours, device, options.seconds, samples.ours_ms));
    LAGOON_RETURN_IF_ERROR(MeasureGaps(sides.ours, device, samples.gaps_us));
    progress.Step(label);
    if (sides.bf16 != nullptr) {
      LAGOON_RETURN_IF_ERROR(RunFor(*sides.bf16, device, options.seconds, samples.bf16_ms));
      progress.Step(label);
    }
    if (sides.onnxruntime == nullptr) continue;
    const int runs = std::max(1, static_cast<int>(options.seconds * 1e3 / Median(samples.ours_ms)));
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, sides.onnxruntime->Run(runs, 1));
    for (const double latency : us) samples.theirs_ms.push_back(latency / 1e3);
    progress.Step(label);
  }
  return samples;
}

class ModelsBenchmark {
 public:
  ModelsBenchmark(const ModelsOptions& options, Report& report)
      : options_(options),
        report_(report),
        progress_("bench models",
                  static_cast<int>(
                      options.models.size() * options.workers.size() * options.batches.size() *
                      static_cast<std::size_t>(options.rounds) *
                      (1 + (options.against_onnxruntime ? 1 : 0) + (options.bf16 ? 1 : 0)))) {}

  Status BenchModel(const Run& run) {
    DeviceChoice choice = options_.device;
    choice.workers = run.workers;
    LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice(choice));
    Device* const device = on.device.get();
    const std::string file = ModelFile(options_.zoo, run.name);
    const BoundModelOptions bound{.tune = options_.tune, .batch = run.batch};
    const TimePoint begin = Now();
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<BoundModel> model,
                            BoundModel::Load(file, run.name, on, bound));
    const double load_ms = ToMilliseconds(Now() - begin);
    if (run.batch != 1 && !TakesBatch(model->instance().plan(), run.batch)) return {};
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<BoundModel> bf16, LoadBf16(run, bound, on));
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxRuntimeProcess> onnxruntime,
                            StartOnnxRuntime(file, run));
    LAGOON_ASSIGN_OR_RETURN(const Samples samples,
                            TakeTurns({*model, bf16.get(), onnxruntime.get()}, *device,
                                      run.Suffix(), options_, progress_));
    ReportLatency(run, samples);
    if (run.workers != options_.workers.back() || run.batch != 1) return {};
    LAGOON_RETURN_IF_ERROR(model->Profile(*device, 5));
    ReportPlan(run.name, model->instance().plan(), report_);
    if (!options_.tune) report_.Metric("load_ms." + run.name, load_ms);
    if (!samples.gaps_us.empty()) {
      report_.Metric("kernel_gap_us_p50." + run.name, Median(samples.gaps_us));
    }
    if (device->info().blocks_on_host) {
      LAGOON_RETURN_IF_ERROR(MeasureBlocks(run.name, options_, Precision::kFp32, report_));
    }
    return bf16 == nullptr ? Status() : ReportBf16(run.name, *model, *bf16, *device);
  }

  void ReportMeans() const {
    for (const auto& [suffix, logarithms] : logarithms_) {
      report_.Metric("latency_ratio_vs_onnxruntime_geomean." + suffix, std::exp(Mean(logarithms)));
    }
  }

 private:
  /// Null: the benchmark runs without it.
  Result<std::unique_ptr<BoundModel>> LoadBf16(const Run& run, BoundModelOptions bound,
                                               const ComputeDevice& on) const {
    if (!options_.bf16) return nullptr;
    bound.precision = Precision::kBf16;
    return BoundModel::Load(ModelFile(options_.zoo, run.name), run.name, on, bound);
  }

  Status ReportBf16(const std::string& name, BoundModel& fp32, BoundModel& bf16, Device& device) {
    constexpr int kInputs = 16;
    LAGOON_ASSIGN_OR_RETURN(const Agreement agreement, Compare(fp32, bf16, device, kInputs));
    report_.Metric("bf16_top1_agreement." + name, agreement.top1);
    report_.Metric("bf16_cosine." + name, agreement.cosine);
    report_.Metric("weights_mib." + name + ".bf16",
                   static_cast<double>(bf16.instance().plan().weight_bytes) / kMib);
    if (!device.info().blocks_on_host) return {};
    return MeasureBlocks(name, options_, Precision::kBf16, report_);
  }

  /// Null: the benchmark runs without it.
  Result<std::unique_ptr<OnnxRuntimeProcess>> StartOnnxRuntime(const std::string& file,
                                                               const Run& run) {
    if (!options_.against_onnxruntime) return nullptr;
    OnnxRuntimeOptions theirs = options_.onnxruntime;
    theirs.threads = static_cast<int>(run.workers);
    theirs.batch = run.batch;
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<OnnxRuntimeProcess> process,
                            OnnxRuntimeProcess::Start(file, theirs));
    report_.Metric("load_ms." + run.name + ".onnxruntime", process->info().value("load_ms", 0.0));
    return process;
  }

  void ReportLatency(const Run& run, const Samples& samples) {
    const double ours = Median(samples.ours_ms);
    report_.Metric("latency_ms_p50." + run.Suffix() + ".lagoon", ours);
    if (!samples.bf16_ms.empty()) {
      const double bf16 = Median(samples.bf16_ms);
      report_.Metric("latency_ms_p50." + run.Suffix() + ".bf16", bf16);
      report_.Metric("bf16_speedup." + run.Suffix(), ours / bf16);
    }
    if (samples.theirs_ms.empty()) return;
    const double theirs = Median(samples.theirs_ms);
    report_.Metric("latency_ms_p50." + run.Suffix() + ".onnxruntime", theirs);
    report_.Metric("latency_ratio_vs_onnxruntime." + run.Suffix(), ours / theirs);
    logarithms_[run.Setting()].push_back(std::log(ours / theirs));
  }

  const ModelsOptions& options_;
  Report& report_;
  Progress progress_;
  std::map<std::string, std::vector<double>> logarithms_;  // of the ratios, by "wW.bB"
};

}  // namespace

Status RunModels(const ModelsOptions& options, Report& report) {
  ModelsBenchmark benchmark(options, report);
  for (const std::string& name : options.models) {
    for (const std::uint32_t workers : options.workers) {
      for (const std::int64_t batch : options.batches) {
        if (Status status = benchmark.BenchModel({name, workers, batch}); !status) {
          return Annotate(fmt::format("{} with {} workers, batch {}", name, workers, batch),
                          std::move(status).error());
        }
      }
    }
  }
  benchmark.ReportMeans();
  return {};
}

}  // namespace lagoon::bench
