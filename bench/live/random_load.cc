#include "bench/live/random_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "bench/live/disb_sides.h"
#include "bench/load_window.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

// A system that ends fewer of its jobs in time gets no larger load.
constexpr double kKeepsUp = 0.7;
constexpr double kTimesAlone = 10;  // load_at_ten_times_alone
constexpr const char* kOnnxRuntime = "onnxruntime";

DisbOptions SidesOf(const RandomLoadOptions& options) {
  DisbOptions sides;
  sides.zoo = options.zoo;
  sides.device = options.device;
  sides.onnxruntime = options.onnxruntime;
  sides.workload.name = "random load";
  for (const std::string& model : options.models) {
    DisbClient client{model, model, JobClass::kBestEffort, {}};
    client.load.kind = DisbLoad::Kind::kTrace;  // the windows say when
    sides.workload.clients.push_back(std::move(client));
  }
  return sides;
}

// What a system did in the windows that count.
struct Seen {
  std::vector<double> all_ms;
  std::vector<std::vector<double>> by_model;
  double completed = 0, seconds = 0;
};

class RandomLoadBenchmark {
 public:
  RandomLoadBenchmark(const RandomLoadOptions& options, Report& report)
      : options_(options),
        report_(report),
        sides_(SidesOf(options)),
        evidence_(report, options.seed) {}

  Status Run() {
    LAGOON_RETURN_IF_ERROR(Open());
    saturated_ = nlohmann::json::object();
    const std::size_t steps = options_.sigmas.size() * options_.loads.size() * systems_.size();
    ProgressBar progress("bench load", static_cast<int>(steps) * options_.windows);
    for (const double sigma : options_.sigmas) {
      std::vector<std::string> left;
      for (const auto& [name, measure] : systems_) left.push_back(name);
      curves_.clear();
      for (const double load : options_.loads) {
        if (!left.empty()) LAGOON_RETURN_IF_ERROR(MeasureAt(sigma, load, left, progress));
      }
      for (const auto& [system, points] : curves_) {
        report_.Metric(fmt::format("load_at_ten_times_alone.{}.sigma{}", system, sigma),
                       LoadAt(points, kTimesAlone * mean_alone_ms_));
      }
    }
    report_.Field("saturated", saturated_);
    evidence_.Finish();
    return {};
  }

 private:
  using Measure = std::function<Status(const DisbWindow&, SystemResult&)>;

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(lagoon_, LagoonSide::Open(sides_));
    for (const std::string& name : options_.schedulers) {
      systems_[name] = [this, name](const DisbWindow& window, SystemResult& seen) {
        return lagoon_->Measure(name, DisbLoad::Late::kQueue, window, kAll, seen);
      };
    }
    if (options_.against_onnxruntime) {
      LAGOON_ASSIGN_OR_RETURN(onnxruntime_, OnnxRuntimeSide::Open(sides_, "plain"));
      systems_[kOnnxRuntime] = [this](const DisbWindow& window, SystemResult& seen) {
        return onnxruntime_->Measure(DisbLoad::Late::kQueue, window, kAll, seen);
      };
    }
    ReportStandalone(lagoon_->standalone(), report_);
    std::vector<Nanoseconds> alone;
    for (const std::string& model : options_.models) {
      alone.push_back(lagoon_->standalone().at(model));
    }
    shares_ = SharesOf(alone, options_.by_size);
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      mean_alone_ms_ += shares_[i] * ToMilliseconds(alone[i]);
    }
    report_.Metric("jobs_per_second_at_load_1", 1e3 / mean_alone_ms_);
    return {};
  }

  // One load for all systems that are left. Takes those that are saturated out of `left`.
  Status MeasureAt(double sigma, double load, std::vector<std::string>& left,
                   ProgressBar& progress) {
    const std::string point = fmt::format("sigma{}.load{}", sigma, load);
    WindowsPlan plan{.groups = {point}, .windows = left, .rounds = options_.windows};
    plan.seed = options_.seed;
    std::vector<std::vector<SystemResult>> seen(left.size());  // by system, by trial
    const auto measure = [&](const WindowPlace& place) -> Status {
      const LoadShape shape{sigma, options_.jobs,
                            options_.seed + static_cast<unsigned>(place.round)};
      const DisbWindow window = MakeLoadWindow(shares_, shape, load * 1e3 / mean_alone_ms_);
      std::vector<SystemResult>& trials = seen[place.window];
      trials.resize(place.trial + 1, SystemResult(options_.models.size()));
      progress.Step(left[place.window]);
      return systems_.at(left[place.window])(window, trials[place.trial]);
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    evidence_.AddWindows(result.summary);
    std::vector<std::string> keep;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (Write(left[i], point, load, seen[i], result.trials[0])) {
        keep.push_back(left[i]);
      } else {
        saturated_[left[i]][fmt::format("sigma{}", sigma)] = load;
      }
    }
    left = std::move(keep);
    return {};
  }

  // False: the system is saturated.
  bool Write(const std::string& system, const std::string& point, double load,
             const std::vector<SystemResult>& trials, const std::vector<std::size_t>& counted) {
    Seen all;
    all.by_model.resize(options_.models.size());
    for (const std::size_t trial : counted) Add(trials[trial], all);
    const int percent = all.all_ms.size() >= kSamplesForP99 ? 99 : 90;
    std::vector<double> tails;
    for (const std::size_t trial : counted) {
      Seen one;
      one.by_model.resize(options_.models.size());
      Add(trials[trial], one);
      tails.push_back(Percentile(one.all_ms, percent));
    }
    const std::string of = fmt::format(".{}.{}", system, point);
    const Interval tail = evidence_.Add(fmt::format("latency_ms_p{}{}", percent, of), tails);
    curves_[system].push_back({load, tail.median});
    report_.Metric("latency_ms_mean" + of, Mean(all.all_ms));
    report_.Metric("latency_ms_p50" + of, Median(all.all_ms));
    report_.Metric("per_second" + of, all.completed / all.seconds);
    for (std::size_t i = 0; i < options_.models.size(); ++i) {
      const std::vector<double>& ms = all.by_model[i];
      if (ms.empty()) continue;
      report_.Metric(fmt::format("latency_ms_p{}{}.{}", ms.size() >= kSamplesForP99 ? 99 : 90, of,
                                 options_.models[i]),
                     Percentile(ms, ms.size() >= kSamplesForP99 ? 99 : 90));
    }
    return all.completed >= kKeepsUp * static_cast<double>(all.all_ms.size());
  }

  static void Add(const SystemResult& trial, Seen& seen) {
    for (std::size_t i = 0; i < trial.clients.size(); ++i) {
      const std::vector<double>& ms = trial.clients[i].contended_ms;
      seen.all_ms.insert(seen.all_ms.end(), ms.begin(), ms.end());
      seen.by_model[i].insert(seen.by_model[i].end(), ms.begin(), ms.end());
      seen.completed += trial.clients[i].completed;
    }
    seen.seconds += trial.seconds;
  }

  const RandomLoadOptions& options_;
  Report& report_;
  const DisbOptions sides_;
  Evidence evidence_;
  std::unique_ptr<LagoonSide> lagoon_;
  std::unique_ptr<OnnxRuntimeSide> onnxruntime_;
  std::map<std::string, Measure> systems_;
  std::vector<double> shares_;                            // by model
  double mean_alone_ms_ = 0;                              // of a job of the mix
  std::map<std::string, std::vector<LoadPoint>> curves_;  // by system: the tail, of one sigma
  nlohmann::json saturated_;
};

}  // namespace

std::vector<double> SharesOf(const std::vector<Nanoseconds>& alone, bool by_size) {
  std::vector<double> shares;
  double sum = 0;
  for (const Nanoseconds time : alone) {
    shares.push_back(by_size ? 1 / Seconds(time).count() : 1);
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

Status RunRandomLoad(const RandomLoadOptions& options, Report& report) {
  return RandomLoadBenchmark(options, report).Run();
}

}  // namespace lagoon::bench
