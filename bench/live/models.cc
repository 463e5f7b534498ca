#include "bench/live/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <thread>

#include "base/json.h"
#include "bench/client/bound_model.h"
#include "bench/live/agreement.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "bench/process/process_costs.h"
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

// Measures each kernel's gap from the last commit of the kernels that it waits for to its first
// block.
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
  std::uint32_t workers = 1;  // 0: the device is a GPU
  std::int64_t batch = 1;

  /// For example "w2.b1"; on a GPU "b1".
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

/// Collects the CPU times of blocks and of transfers, on a device with one worker.
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

/// The sides that take turns on one device.
struct Sides {
  BoundModel& ours;
  BoundModel* bf16;  // may be null
  std::vector<std::unique_ptr<ComparatorProcess>>& theirs;
};

/// The results of one trial: latencies in milliseconds, and the gaps between our kernels.
struct Trial {
  std::vector<double> ours_ms, bf16_ms, gaps_us;
  std::map<std::string, std::vector<double>> theirs_ms;  // by engine

  /// The latency of the fastest of the other engines, 0 if there is none.
  double BestOfTheirs() const {
    double best = 0;
    for (const auto& [engine, latencies] : theirs_ms) {
      const double median = Median(latencies);
      best = best == 0 ? median : std::min(best, median);
    }
    return best;
  }
};

/// The trials that count.
struct Samples {
  std::vector<Trial> trials;
  bool clean = true;  // the host disturbed none of them

  std::vector<double> All(std::vector<double> Trial::*samples) const {
    std::vector<double> all;
    for (const Trial& trial : trials) {
      all.insert(all.end(), (trial.*samples).begin(), (trial.*samples).end());
    }
    return all;
  }
  /// Whether the engine runs the model.
  bool Has(const std::string& engine) const {
    return !trials.empty() && trials.front().theirs_ms.contains(engine);
  }
  /// The ratios, trial by trial, of two latencies that the functions take from a trial.
  template <typename Over, typename Under>
  std::vector<double> Ratios(Over over, Under under) const {
    std::vector<double> ratios;
    for (const Trial& trial : trials) ratios.push_back(over(trial) / under(trial));
    return ratios;
  }
};

class Turns {
 public:
  Turns(const Sides& sides, Device& device, std::string label, const ModelsOptions& options)
      : sides_(sides), device_(device), label_(std::move(label)), options_(options) {}

  Result<Samples> Take(HostWatch& watch, ProgressBar& progress, Evidence& evidence) {
    LAGOON_RETURN_IF_ERROR(WarmUp());
    WindowsPlan plan{
        .groups = {label_}, .windows = {kOurs}, .rounds = options_.rounds, .seed = options_.seed};
    if (sides_.bf16 != nullptr) plan.windows.emplace_back(kBf16);
    for (const auto& theirs : sides_.theirs) plan.windows.push_back(theirs->engine());
    std::vector<Trial> trials;
    const auto measure = [&](const WindowPlace& place) -> Status {
      if (trials.size() <= place.trial) trials.emplace_back();
      LAGOON_RETURN_IF_ERROR(Measure(plan.windows[place.window], trials[place.trial]));
      progress.Step(label_);
      return {};
    };
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, watch, Now, measure));
    evidence.AddWindows(result.summary);
    Samples samples{.trials = {}, .clean = result.Clean(0)};
    for (const std::size_t trial : result.trials[0]) samples.trials.push_back(trials[trial]);
    return samples;
  }

 private:
  static constexpr const char* kOurs = "lagoon";
  static constexpr const char* kBf16 = "bf16";

  Status WarmUp() {
    for (int i = 0; i < kWarmUpRuns; ++i) {
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(sides_.ours.Run(device_));
      ours_ms_ = ToMilliseconds(Now() - begin);
      if (sides_.bf16 != nullptr) LAGOON_RETURN_IF_ERROR(sides_.bf16->Run(device_));
    }
    return {};
  }

  Status Measure(const std::string& side, Trial& trial) {
    if (side == kOurs) {
      LAGOON_RETURN_IF_ERROR(RunFor(sides_.ours, device_, options_.seconds, trial.ours_ms));
      ours_ms_ = Median(trial.ours_ms);
      return MeasureGaps(sides_.ours, device_, trial.gaps_us);
    }
    if (side == kBf16) return RunFor(*sides_.bf16, device_, options_.seconds, trial.bf16_ms);
    for (const auto& theirs : sides_.theirs) {
      if (theirs->engine() != side) continue;
      const int runs = std::max(1, static_cast<int>(options_.seconds * 1e3 / ours_ms_));
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, theirs->Run(runs, 1));
      for (const double latency : us) trial.theirs_ms[side].push_back(latency / 1e3);
    }
    return {};
  }

  const Sides& sides_;
  Device& device_;
  const std::string label_;
  const ModelsOptions& options_;
  double ours_ms_ = 0;  // our latest latency: gives the number of the others' runs in a turn
};

double GeometricMean(std::span<const double> ratios) {
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  return std::exp(logarithms / static_cast<double>(ratios.size()));
}

constexpr double kMostRatio = 1.25;
constexpr double kMostRatioToBest = 1.15;

class ModelsBenchmark {
 public:
  ModelsBenchmark(const ModelsOptions& options, Report& report)
      : options_(options),
        report_(report),
        evidence_(report, options.seed),
        progress_(
            "bench models",
            static_cast<int>(options.models.size() * options.workers.size() *
                             options.batches.size() * static_cast<std::size_t>(options.rounds) *
                             (1 + options.engines.size() + (options.bf16 ? 1 : 0)))) {}

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
    LAGOON_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<ComparatorProcess>> theirs,
                            StartEngines(file, run));
    const Sides sides{*model, bf16.get(), theirs};
    LAGOON_ASSIGN_OR_RETURN(
        const Samples samples,
        Turns(sides, *device, run.Suffix(), options_).Take(probe_, progress_, evidence_));
    ReportLatency(run, samples);
    if (run.workers != options_.workers.back() || run.batch != 1) return {};
    LAGOON_RETURN_IF_ERROR(model->Profile(*device, 5));
    ReportPlan(run.name, model->instance().plan(), report_);
    if (!options_.tune) report_.Metric("load_ms." + run.name, load_ms);
    const std::vector<double> gaps_us = samples.All(&Trial::gaps_us);
    if (!gaps_us.empty()) report_.Metric("kernel_gap_us_p50." + run.name, Median(gaps_us));
    if (device->info().blocks_on_host) {
      LAGOON_RETURN_IF_ERROR(MeasureBlocks(run.name, options_, Precision::kFp32, report_));
    }
    return bf16 == nullptr ? Status() : ReportBf16(run.name, *model, *bf16, *device);
  }

  /// Measures the processes of all models, before their latencies.
  Status MeasureProcesses() {
    if (!options_.processes || options_.engines.empty()) return {};
    LAGOON_ASSIGN_OR_RETURN(const std::vector<std::string> undecided,
                            MeasureProcessCosts({.zoo = options_.zoo,
                                                 .models = options_.models,
                                                 .engines = options_.engines,
                                                 .rounds = options_.rounds,
                                                 .seed = options_.seed,
                                                 .comparator = options_.comparator},
                                                report_, evidence_));
    for (const std::string& metric : undecided) undecided_.push_back(metric);
    return {};
  }

  void Finish() {
    for (const auto& [engine, settings] : ratios_) {
      for (const auto& [setting, of_models] : settings) {
        evidence_.AddInterval(fmt::format("latency_ratio_vs_{}_geomean.{}", engine, setting),
                              CombinedInterval(of_models, options_.seed, GeometricMean));
      }
    }
    for (const auto& [set, ratios] : sets_) {
      JudgeMean("latency_ratio_vs_best_geomean." + set, ratios, 1);
    }
    for (const auto& [model, ratios] : int8_) {
      JudgeMean("int8_ratio_vs_best." + model, ratios, kMostRatioToBest);
    }
    report_.Field("undecided", undecided_);
    report_.Field("not_run", not_run_);
    evidence_.Finish();
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

  Result<std::vector<std::unique_ptr<ComparatorProcess>>> StartEngines(const std::string& file,
                                                                       const Run& run) {
    std::vector<std::unique_ptr<ComparatorProcess>> processes;
    for (const std::string& engine : options_.engines) {
      ComparatorOptions theirs = options_.comparator;
      theirs.engine = engine;
      theirs.threads = static_cast<int>(run.workers);
      theirs.batch = run.batch;
      Result<std::unique_ptr<ComparatorProcess>> process = ComparatorProcess::Start(file, theirs);
      if (process) {
        processes.push_back(*std::move(process));
      } else {
        not_run_[fmt::format("{}.{}", run.name, engine)] = process.error().message;
      }
    }
    if (!processes.empty() || options_.engines.empty()) return processes;
    return Fail(ErrorCode::kUnavailable,
                fmt::format("no engine runs '{}': {}", file, DumpJson(not_run_)));
  }

  void ReportLatency(const Run& run, const Samples& samples) {
    const auto report_p50 = [&](const std::string& side, const std::vector<double>& all) {
      if (all.empty()) return;
      report_.Metric(fmt::format("latency_ms_p50.{}.{}", run.Suffix(), side), Median(all));
    };
    const auto ours = [](const Trial& trial) { return Median(trial.ours_ms); };
    const auto bf16 = [](const Trial& trial) { return Median(trial.bf16_ms); };
    report_p50("lagoon", samples.All(&Trial::ours_ms));
    report_p50("bf16", samples.All(&Trial::bf16_ms));
    if (options_.bf16) {
      evidence_.Add("bf16_speedup." + run.Suffix(), samples.Ratios(ours, bf16));
    }
    for (const std::string& engine : options_.engines) {
      if (!samples.Has(engine)) continue;
      std::vector<double> all;
      for (const Trial& trial : samples.trials) {
        const std::vector<double>& latencies = trial.theirs_ms.at(engine);
        all.insert(all.end(), latencies.begin(), latencies.end());
      }
      report_p50(engine, all);
      ReportRatio(run, engine,
                  samples.Ratios(
                      ours, [&](const Trial& trial) { return Median(trial.theirs_ms.at(engine)); }),
                  samples.clean);
    }
    if (options_.engines.size() < 2) return;
    ReportRatio(run, "best",
                samples.Ratios(ours, [](const Trial& trial) { return trial.BestOfTheirs(); }),
                samples.clean);
  }

  void ReportRatio(const Run& run, const std::string& engine, const std::vector<double>& ratios,
                   bool clean) {
    const std::string name = fmt::format("latency_ratio_vs_{}.{}", engine, run.Suffix());
    const bool best = engine == "best";
    const Interval interval = evidence_.Add(name, ratios);
    const bool steady = interval.high - interval.low <= kMostSpread * interval.median;
    Judge(name, interval, best ? kMostRatioToBest : kMostRatio, clean && steady);
    ratios_[engine][run.Setting()].push_back(ratios);
    if (!best) return;
    sets_[fmt::format("{}.{}", SetOf(options_.zoo, run.name), run.Setting())].Add(ratios, clean);
    if (IsQuantised(run.name)) int8_[run.name].Add(ratios, clean);
  }

  void Judge(const std::string& name, const Interval& interval, double most, bool clean) {
    if (evidence_.Target(name, interval, Bound::kAtMost, most, clean) == Verdict::kUndecided) {
      undecided_.push_back(name);
    }
  }

  /// Trial by trial, of each of several measurements.
  struct Ratios {
    std::vector<std::vector<double>> values;
    bool clean = true;  // all of them

    void Add(const std::vector<double>& ratios, bool are_clean) {
      values.push_back(ratios);
      clean = clean && are_clean;
    }
  };

  void JudgeMean(const std::string& name, const Ratios& ratios, double most) {
    const Interval interval = CombinedInterval(ratios.values, options_.seed, GeometricMean);
    evidence_.AddInterval(name, interval);
    Judge(name, interval, most, ratios.clean);
  }

  const ModelsOptions& options_;
  Report& report_;
  Evidence evidence_;
  ProgressBar progress_;
  HostProbe probe_;
  // By engine, or "best"; by "wW.bB"; of each model.
  std::map<std::string, std::map<std::string, std::vector<std::vector<double>>>> ratios_;
  std::map<std::string, Ratios> sets_;  // by "SET.wW.bB"
  std::map<std::string, Ratios> int8_;  // by model
  nlohmann::json undecided_ = nlohmann::json::array();
  nlohmann::json not_run_ = nlohmann::json::object();
};

}  // namespace

bool IsQuantised(const std::string& model) {
  return model.ends_with(".qdq") || model.ends_with(".qoperator") || model.ends_with(".dynamic");
}

std::string SetOf(const std::string& zoo, const std::string& model) {
  std::ifstream file(std::filesystem::path(zoo) / model / "zoo.json");
  const nlohmann::json stamp = nlohmann::json::parse(file, nullptr, false);
  std::string set = "zoo";
  if (stamp.is_object() && stamp.contains("set") && stamp["set"].is_string()) set = stamp["set"];
  return set + (IsQuantised(model) ? "_int8" : "");
}

Status RunModels(const ModelsOptions& options, Report& report) {
  ModelsBenchmark benchmark(options, report);
  LAGOON_RETURN_IF_ERROR(benchmark.MeasureProcesses());
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
  benchmark.Finish();
  return {};
}

}  // namespace lagoon::bench
