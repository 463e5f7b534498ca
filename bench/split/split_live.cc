#include "bench/split/split_live.h"

#include <fmt/format.h>

#include <numeric>

#include "base/time.h"
#include "bench/measure/windows.h"
#include "bench/split/fifo_sessions.h"
#include "bench/split/lagoon_models.h"
#include "bench/split/preemption_decision.h"
#include "bench/split/results.h"

namespace lagoon::bench {
namespace {

constexpr double kTable1SumMs = 10.8 + 13.2 + 28.35 + 67.5 + 20.4;  // SPLIT, Table 1

class SplitLiveBenchmark {
 public:
  SplitLiveBenchmark(const SplitLiveOptions& options, Report& report)
      : options_(options),
        report_(report),
        names_(SplitZoo(options.small)),
        requests_((options.requests + options.windows - 1) / options.windows) {}

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(models_, LagoonModels::Open(options_.zoo, names_, options_.device));
    const std::vector<double>& alone_ms = models_->alone_ms();
    results_.models = models_->names();
    for (const double ms : alone_ms) {
      const std::chrono::duration<double, std::milli> limit(ms * options_.deadline_alpha);
      limits_.push_back(std::chrono::duration_cast<Nanoseconds>(limit));
    }
    LAGOON_ASSIGN_OR_RETURN(runs_, SplitRuns(options_.schedulers));
    for (const SplitRun& run : runs_) results_.systems.push_back({run.name, alone_ms});
    LAGOON_RETURN_IF_ERROR(AddCases());
    return options_.against_onnxruntime ? OpenOnnxRuntime() : Status();
  }

  Status Run() {
    WindowsPlan plan{
        .rounds = options_.windows, .seconds = options_.seconds, .seed = options_.seed};
    for (const SplitCase& one : results_.cases) plan.groups.push_back(one.name);
    for (const SplitSystem& system : results_.systems) plan.windows.push_back(system.name);
    measured_.resize(results_.cases.size());
    ProgressBar progress("bench split", static_cast<int>(plan.groups.size() * plan.windows.size()) *
                                            options_.windows);
    const auto measure = [&](const WindowPlace& place) -> Status {
      LAGOON_RETURN_IF_ERROR(Measure(place));
      progress.Step(plan.windows[place.window]);
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    return Write(result);
  }

 private:
  Status AddCases() {
    const std::vector<double>& alone_ms = models_->alone_ms();
    const double sum = std::accumulate(alone_ms.begin(), alone_ms.end(), 0.0);
    for (const int number : options_.scenarios) {
      LAGOON_ASSIGN_OR_RETURN(const SplitCase one,
                              SplitScenario(number, SplitReading::kOneProcess, sum / kTable1SumMs));
      report_.Metric("load." + one.name, LoadOf(one, alone_ms));
      report_.Metric("interval_ms." + one.name, ToMilliseconds(one.interval));
      results_.cases.push_back(one);
    }
    return {};
  }

  Status OpenOnnxRuntime() {
    LAGOON_ASSIGN_OR_RETURN(sessions_,
                            FifoSessions::Open(options_.zoo, names_, options_.onnxruntime));
    results_.systems.push_back({"onnxruntime", sessions_->alone_ms()});
    for (std::size_t i = 0; i < names_.size(); ++i) {
      report_.Metric(fmt::format("alone_ms.{}.onnxruntime", names_[i]), sessions_->alone_ms()[i]);
    }
    return {};
  }

  // All systems of a round get the same arrivals.
  Status Measure(const WindowPlace& place) {
    const std::vector<SplitArrival> arrivals =
        MakeSplitArrivals(results_.cases[place.group], names_.size(), requests_,
                          options_.seed + static_cast<std::uint32_t>(place.round));
    auto& trials = measured_[place.group];
    if (trials.size() <= place.trial) trials.emplace_back(results_.systems.size());
    SplitAnswers& answers = trials[place.trial][place.window];
    if (place.window == runs_.size()) {
      LAGOON_ASSIGN_OR_RETURN(answers, sessions_->Run(arrivals));
      return {};
    }
    const std::span<const Nanoseconds> limits(limits_);
    const SplitRun& run = runs_[place.window];
    LAGOON_ASSIGN_OR_RETURN(answers,
                            models_->Run(run, arrivals, run.deadlines ? limits : limits.first(0)));
    return {};
  }

  Status Write(const WindowsResult& result) {
    for (std::size_t i = 0; i < results_.cases.size(); ++i) {
      std::vector<std::vector<SplitAnswers>> of_systems(results_.systems.size());
      for (const std::size_t trial : result.trials[i]) {
        for (std::size_t system = 0; system < of_systems.size(); ++system) {
          of_systems[system].push_back(measured_[i][trial][system]);
        }
      }
      results_.trials.push_back(std::move(of_systems));
      results_.clean.push_back(result.Clean(i));
    }
    Evidence evidence(report_, options_.seed);
    WriteSplitResults(results_, evidence, report_);
    LAGOON_RETURN_IF_ERROR(models_->WriteParts(report_));
    LAGOON_RETURN_IF_ERROR(MeasurePreemptionDecision({}, evidence));
    evidence.AddWindows(result.summary);
    evidence.Finish();
    return {};
  }

  const SplitLiveOptions& options_;
  Report& report_;
  const std::vector<std::string> names_;
  const int requests_;  // of a window
  std::unique_ptr<LagoonModels> models_;
  std::unique_ptr<FifoSessions> sessions_;  // null: not measured
  std::vector<Nanoseconds> limits_;         // by model
  std::vector<SplitRun> runs_;
  SplitResults results_;
  std::vector<std::vector<std::vector<SplitAnswers>>> measured_;  // by case, trial and system
};

}  // namespace

std::vector<std::string> SplitZoo(bool small) {
  if (small) return {"mobilenet_v2", "squeezenet1_1", "resnet18", "gnmt_tiny", "bert_tiny"};
  return {"yolov2", "googlenet", "resnet50", "vgg19", "gpt2_prefill"};
}

Status RunSplitLive(const SplitLiveOptions& options, Report& report) {
  SplitLiveBenchmark benchmark(options, report);
  LAGOON_RETURN_IF_ERROR(benchmark.Open());
  return benchmark.Run();
}

}  // namespace lagoon::bench
