#include "bench/live/disb.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/check.h"
#include "bench/client/onnxruntime_beside.h"
#include "bench/live/disb_sides.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

// Most repetitions of disturbed trials, as a part of all trials: a run becomes longer by at most
// this part.
constexpr double kRepeats = 0.25;

std::string_view KindName(DisbLoad::Kind kind) {
  switch (kind) {
    case DisbLoad::Kind::kContinuous:
      return "continuous";
    case DisbLoad::Kind::kUniform:
      return "uniform";
    case DisbLoad::Kind::kPoisson:
      return "poisson";
    case DisbLoad::Kind::kTrace:
      return "trace";
  }
  CheckFailed("a known kind of load", __FILE__, __LINE__);
}

/// The clients and their loads, so that other programs can measure under the same loads.
nlohmann::json ClientsJson(const DisbWorkload& workload) {
  nlohmann::json clients = nlohmann::json::array();
  for (const DisbClient& client : workload.clients) {
    nlohmann::json load = {{"kind", KindName(client.load.kind)}};
    if (client.load.kind == DisbLoad::Kind::kTrace) {
      for (const Nanoseconds at : client.load.trace) load["trace_ms"].push_back(ToMilliseconds(at));
      load["period_ms"] = ToMilliseconds(client.load.period);
    } else if (client.load.per_second > 0) {
      load["per_second"] = client.load.per_second;
    } else if (!IsClosedLoop(client)) {
      load["fraction"] = client.load.fraction;
    }
    clients.push_back({{"name", client.name},
                       {"model", client.model},
                       {"class", IsRealTime(client) ? "real-time" : "best-effort"},
                       {"load", std::move(load)}});
  }
  return clients;
}

// Targets of bench/results/tables.md.
constexpr const char* kJudged = "lagoon";
constexpr double kMostIdle = 0.02;

// A scheduler, or a setting of ONNX Runtime.
struct System {
  std::string name;  // SystemName()
  bool scheduler;
  StandaloneTimes standalone;
  std::function<Status(const DisbWindow&, DisbPart, SystemResult&)> measure;
  std::vector<SystemResult> trials = {};
  std::vector<std::size_t> counted = {};  // of `trials`
  bool clean = false;                     // the host has not disturbed them
  Interval tail = {};                     // with all clients, over real-time clients alone
};

// The latencies of all real-time clients in a trial, over their standalone latencies.
std::vector<double> Normalized(const DisbOptions& options, const System& system,
                               const SystemResult& trial,
                               std::vector<double> ClientResult::*samples) {
  std::vector<double> all;
  const std::vector<DisbClient>& clients = options.workload.clients;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (!IsRealTime(clients[i])) continue;
    const double alone_ms = ToMilliseconds(system.standalone.at(clients[i].model));
    for (const double ms : trial.clients[i].*samples) all.push_back(ms / alone_ms);
  }
  return all;
}

class DisbBenchmark {
 public:
  DisbBenchmark(const DisbOptions& options, Report& report) : options_(options), report_(report) {}

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(lagoon_, LagoonSide::Open(options_));
    for (const DisbLoad::Late late : WaysOf(options_)) {
      for (const std::string& name : options_.schedulers) AddScheduler(name, late);
    }
    for (const std::string& setting : options_.settings) {
      LAGOON_RETURN_IF_ERROR(AddOnnxRuntime(setting));
    }
    std::mt19937 random(options_.seed);
    for (int i = 0; i < options_.windows; ++i) {
      windows_.push_back(MakeWindow(options_, lagoon_->standalone(), random));
    }
    return {};
  }

  Status Run() {
    WindowsPlan plan{.windows = kDisbParts,
                     .rounds = options_.windows,
                     .repeats = kRepeats,
                     .seed = options_.seed};
    for (const System& system : systems_) plan.groups.push_back(system.name);
    ProgressBar progress("bench disb " + options_.workload.name,
                         static_cast<int>(systems_.size() * kDisbParts.size()) * options_.windows);
    const auto measure = [&](const WindowPlace& place) -> Status {
      System& system = systems_[place.group];
      if (system.trials.size() <= place.trial) {
        system.trials.emplace_back(options_.workload.clients.size());
      }
      LAGOON_RETURN_IF_ERROR(system.measure(
          windows_[place.round], static_cast<DisbPart>(place.window), system.trials[place.trial]));
      progress.Step(system.name);
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    ReportStandalone(lagoon_->standalone(), report_);
    Evidence evidence(report_, options_.seed);
    for (std::size_t i = 0; i < systems_.size(); ++i) {
      systems_[i].counted = result.trials[i];
      systems_[i].clean = result.Clean(i);
      Write(systems_[i], evidence);
    }
    CompareWithOs(evidence);
    evidence.AddWindows(result.summary);
    evidence.Finish(options_.suffix);
    return {};
  }

 private:
  void AddScheduler(const std::string& name, DisbLoad::Late late) {
    systems_.push_back(
        {SystemName(name, late), true, lagoon_->standalone(),
         [this, name, late](const DisbWindow& window, DisbPart part, SystemResult& seen) {
           return lagoon_->Measure(name, late, window, part, seen);
         }});
  }

  Status AddOnnxRuntime(const std::string& setting) {
    LAGOON_ASSIGN_OR_RETURN(onnxruntimes_.emplace_back(), OnnxRuntimeSide::Open(options_, setting));
    OnnxRuntimeSide* const side = onnxruntimes_.back().get();
    for (const DisbLoad::Late late : WaysOf(options_)) {
      const std::string name = setting == "plain" ? "onnxruntime" : "onnxruntime-" + setting;
      systems_.push_back(
          {SystemName(name, late), false, side->standalone(),
           [side, late](const DisbWindow& window, DisbPart part, SystemResult& seen) {
             return side->Measure(late, window, part, seen);
           }});
    }
    return {};
  }

  void Write(System& system, Evidence& evidence) {
    SystemResult all(options_.workload.clients.size());
    for (const std::size_t trial : system.counted) all.Add(system.trials[trial]);
    const std::string name = system.name + options_.suffix;
    ReportSystem(options_, system.standalone, name, all, report_);
    WriteRatios(system, evidence);
    if (!system.scheduler) return;
    ReportScheduler(options_, name, all, report_);
    const std::string idle_name = "idle_while_ready_fraction." + name;
    const Interval idle = evidence.Add(idle_name, all.idle_while_ready);
    if (system.name != kJudged) return;
    evidence.Target(idle_name, idle, Bound::kAtMost, kMostIdle, system.clean);
  }

  // Reports the latency of the window with all clients over that of real-time clients alone, pair
  // by pair.
  void WriteRatios(System& system, Evidence& evidence) {
    std::vector<double> mean, median, tail, normalized;
    std::size_t least = std::numeric_limits<std::size_t>::max(), total = 0;
    for (const std::size_t trial : system.counted) {
      const SystemResult& seen = system.trials[trial];
      const auto count = Normalized(options_, system, seen, &ClientResult::contended_ms).size();
      least = std::min(
          {least, count, Normalized(options_, system, seen, &ClientResult::alone_ms).size()});
      total += count;
    }
    if (least == 0) return;
    const int percent = least >= kSamplesForWindowP99 && total >= kSamplesForP99 ? 99 : 90;
    for (const std::size_t trial : system.counted) {
      const SystemResult& seen = system.trials[trial];
      const auto all = Normalized(options_, system, seen, &ClientResult::contended_ms);
      const auto alone = Normalized(options_, system, seen, &ClientResult::alone_ms);
      mean.push_back(Mean(all) / Mean(alone));
      median.push_back(Median(all) / Median(alone));
      normalized.push_back(Percentile(all, percent));
      tail.push_back(normalized.back() / Percentile(alone, percent));
    }
    const std::string name = system.name + options_.suffix;
    evidence.Add("realtime_latency_vs_alone_mean." + name, mean);
    evidence.Add("realtime_latency_vs_alone_p50." + name, median);
    const Interval spread = MedianInterval(normalized, options_.seed);
    const std::string normalized_name =
        fmt::format("realtime_latency_normalized_p{}.{}", percent, name);
    report_.Metric(normalized_name + "_low", spread.low);
    report_.Metric(normalized_name + "_high", spread.high);
    const std::string tail_name = fmt::format("realtime_latency_vs_alone_p{}.{}", percent, name);
    system.tail = evidence.Add(tail_name, tail);
    if (system.name == kJudged && percent == 99) {
      evidence.Target(tail_name, system.tail, Bound::kAtMost, kMostTail, system.clean);
    }
  }

  // Work per trial: the sum over clients of requests a second over the model's most alone. What
  // a model does alone is ONNX Runtime's, so that the work of all systems counts alike.
  std::vector<double> Work(const System& system, const StandaloneTimes& alone) const {
    std::vector<double> work;
    const std::vector<DisbClient>& clients = options_.workload.clients;
    for (const std::size_t trial : system.counted) {
      const SystemResult& seen = system.trials[trial];
      double sum = 0;
      for (std::size_t i = 0; i < clients.size(); ++i) {
        sum +=
            seen.clients[i].completed / seen.seconds * Seconds(alone.at(clients[i].model)).count();
      }
      work.push_back(sum);
    }
    return work;
  }

  // The work of each scheduler over that of the best setting of the operating system.
  void CompareWithOs(Evidence& evidence) {
    std::vector<const System*> settings;
    std::vector<SettingShown> shown;
    for (const System& one : systems_) {
      if (one.scheduler || one.counted.empty()) continue;
      settings.push_back(&one);
      shown.push_back({one.tail.median, false, Median(Work(one, settings.front()->standalone))});
    }
    if (settings.empty()) return;
    const StandaloneTimes& alone = settings.front()->standalone;
    const System& best = *settings[BestSetting(shown)];
    report_.Field("best_os" + options_.suffix, best.name);
    for (const System& one : systems_) {
      if (!one.scheduler || one.counted.empty()) continue;
      const Interval ratio = CombinedInterval(
          {Work(one, alone), Work(best, alone)}, options_.seed,
          [](std::span<const double> medians) { return medians[0] / std::max(medians[1], 1e-9); });
      const bool judged = one.name == kJudged;
      const std::string name =
          "throughput_vs_best_os." + options_.workload.name + (judged ? "" : "." + one.name);
      evidence.AddInterval(name, ratio);
      if (!judged) continue;
      report_.Metric(name + "_low", ratio.low);
      report_.Metric(name + "_high", ratio.high);
      evidence.Target(name, ratio, Bound::kAtLeast, 1, one.clean && best.clean);
    }
  }

  const DisbOptions& options_;
  Report& report_;
  std::unique_ptr<LagoonSide> lagoon_;
  std::vector<std::unique_ptr<OnnxRuntimeSide>> onnxruntimes_;
  std::vector<DisbWindow> windows_;  // by round
  std::vector<System> systems_;
};

}  // namespace

Status RunDisb(const DisbOptions& options, Report& report) {
  report.Field("clients" + options.suffix, ClientsJson(options.workload));
  DisbBenchmark benchmark(options, report);
  LAGOON_RETURN_IF_ERROR(benchmark.Open());
  return benchmark.Run();
}

}  // namespace lagoon::bench
