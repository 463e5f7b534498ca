#include "bench/robot/robot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>

#include "bench/client/onnxruntime_beside.h"
#include "bench/client/temporary_folder.h"
#include "bench/measure/evidence.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "bench/robot/load.h"
#include "bench/robot/systems.h"

namespace lagoon::bench {
namespace {

// The background runs for so long before a window counts. All clients know of the window by then.
constexpr auto kSettle = std::chrono::milliseconds(500);

// The windows of a trial.
enum Window : std::size_t { kAlone, kBoth };
const std::vector<std::string> kWindows = {"alone", "both"};

// The real-time requests of one window.
struct RealTimeAnswers {
  // A request that failed, or was not sent within twice the window, took as long as the window.
  std::vector<double> latencies_ms;
  double late = 0;  // part of the requests
};

struct Trial {
  RealTimeAnswers windows[2];
  std::vector<double> background;  // answers a second in the window "both", by background model
  double failed = 0;

  double background_sum() const {
    return std::accumulate(background.begin(), background.end(), 0.0);
  }
};

struct System {
  RobotSystemName name;
  std::vector<Trial> measured;
  std::vector<const Trial*> trials = {};  // those that count
  bool clean = false;                     // the host has not disturbed them
  Interval tail = {}, late = {};

  template <typename Read>
  std::vector<double> Each(Read read) const {
    std::vector<double> values;
    for (const Trial* trial : trials) values.push_back(read(*trial));
    return values;
  }
  std::vector<double> Pool(Window window) const {
    std::vector<double> all;
    for (const Trial* trial : trials) {
      const std::vector<double>& one = trial->windows[window].latencies_ms;
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

class RobotBenchmark {
 public:
  RobotBenchmark(const RobotOptions& options, RobotLoad load, Report& report)
      : options_(options), load_(std::move(load)), report_(report) {}

  Status Run() {
    LAGOON_RETURN_IF_ERROR(ChooseSystems());
    LAGOON_RETURN_IF_ERROR(MeasureBackgroundAlone());
    WindowsPlan plan{.windows = kWindows, .rounds = options_.trials, .seed = options_.seed};
    for (const System& system : systems_) plan.groups.push_back(system.name.name);
    ProgressBar progress("bench robot",
                         static_cast<int>(systems_.size() * kWindows.size()) * options_.trials);
    plan.prepare = [this](std::size_t group) -> Status {
      running_.reset();
      LAGOON_ASSIGN_OR_RETURN(running_, OpenRobotSystem(systems_[group].name, options_, load_));
      return {};
    };
    const auto measure = [&](const WindowPlace& place) -> Status {
      LAGOON_RETURN_IF_ERROR(Measure(place));
      progress.Step(systems_[place.group].name.name);
      return {};
    };
    HostProbe probe;
    const Result<WindowsResult> result = MeasureWindows(plan, probe, Now, measure);
    running_.reset();
    if (!result) return tl::unexpected<Error>(result.error());
    Write(*result);
    return {};
  }

 private:
  Status ChooseSystems();
  Status MeasureBackgroundAlone();
  RobotWindow WindowOf(const std::function<bool(std::size_t stream)>& active) const;
  Status CheckRate(const System& system, const RobotWindow& window, std::size_t stream,
                   const StreamAnswers& answers) const;
  Status Measure(const WindowPlace& place);
  void Write(const WindowsResult& result);
  void WriteLatency(System& system, Evidence& evidence) const;
  void WriteBackground(const System& system, Evidence& evidence) const;
  void Judge(const System& system, const System* best, Evidence& evidence) const;
  /// Adds the metric with its interval, also as _low and _high.
  Interval Add(Evidence& evidence, const std::string& name,
               const std::vector<double>& values) const;
  const System* BestOfOs() const;
  double Work(const Trial& trial) const;
  void PrintTable() const;

  const RobotOptions& options_;
  const RobotLoad load_;
  Report& report_;
  std::vector<System> systems_;
  std::unique_ptr<RobotSystem> running_;
  std::vector<double> alone_per_second_;  // by background model
};

Status RobotBenchmark::ChooseSystems() {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<RobotSystemName> names,
                          ParseRobotSystems(options_.systems, options_.transports));
  nlohmann::json skipped = nlohmann::json::object();
  std::string why;
  for (const RobotSystemName& name : names) {
    const Status permitted = Permitted(name.setting);
    if (permitted) {
      systems_.push_back({name, {}});
      continue;
    }
    skipped[name.name] = permitted.error().message;
    why = fmt::format("{} is skipped: {}", name.name, permitted.error().message);
    std::fprintf(stderr, "%s\n", why.c_str());
  }
  report_.Field("skipped", std::move(skipped));
  if (systems_.empty()) return Fail(ErrorCode::kUnavailable, "no system is left: " + why);
  return {};
}

RobotWindow RobotBenchmark::WindowOf(const std::function<bool(std::size_t)>& active) const {
  RobotWindow window;
  for (std::size_t stream = 0; stream < load_.streams(); ++stream) {
    window.active.push_back(active(stream));
  }
  window.start = Now();
  window.begin = window.start + kSettle;
  window.end = window.begin + FromSeconds(options_.seconds);
  return window;
}

// Measures each model by itself, so that answers of different models can be added up.
Status RobotBenchmark::MeasureBackgroundAlone() {
  const auto first =
      std::ranges::find_if(systems_, [](const auto& one) { return !one.name.lagoon(); });
  const System& system = first == systems_.end() ? systems_.front() : *first;
  LAGOON_ASSIGN_OR_RETURN(running_, OpenRobotSystem(system.name, options_, load_));
  for (std::size_t stream = load_.clients(); stream < load_.streams(); ++stream) {
    const RobotWindow window = WindowOf([&](std::size_t one) { return one == stream; });
    LAGOON_ASSIGN_OR_RETURN(const std::vector<StreamAnswers> answers, running_->Measure(window));
    const std::string& model = load_.ModelOf(stream).name;
    if (answers[stream].per_second <= 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' gave no answer within --seconds {:g}, alone under {}: {}",
                              model, options_.seconds, system.name.name,
                              answers[stream].failed > 0 ? answers[stream].error
                                                         : "it needs longer windows"));
    }
    alone_per_second_.push_back(answers[stream].per_second);
    report_.Metric("robot_background_alone_per_second." + model, answers[stream].per_second);
  }
  return {};
}

// A model that does not keep up alone has nothing to compare.
Status RobotBenchmark::CheckRate(const System& system, const RobotWindow& window,
                                 std::size_t stream, const StreamAnswers& answers) const {
  const std::size_t arrivals = window.arrivals_us[stream].size();
  if (static_cast<std::size_t>(answers.unsent) * 2 < arrivals) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("system {}: '{}' alone took {} of the {} requests of a client in twice the "
                  "window: {:g} requests a second are too many for the model; give a lower "
                  "--rate",
                  system.name.name, load_.ModelOf(stream).name,
                  arrivals - static_cast<std::size_t>(answers.unsent), arrivals,
                  options_.scenario.rate));
}

Status RobotBenchmark::Measure(const WindowPlace& place) {
  System& system = systems_[place.group];
  if (system.measured.size() <= place.trial) system.measured.emplace_back();
  Trial& trial = system.measured[place.trial];
  RobotWindow window =
      WindowOf([&](std::size_t stream) { return load_.RealTime(stream) || place.window == kBoth; });
  // All systems, and both windows, have the same arrivals in a round.
  window.arrivals_us =
      load_.Arrivals(options_.seconds, options_.seed + static_cast<std::uint32_t>(place.round));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<StreamAnswers> answers, running_->Measure(window));
  RealTimeAnswers& real_time = trial.windows[place.window];
  for (std::size_t stream = 0; stream < load_.streams(); ++stream) {
    const StreamAnswers& one = answers[stream];
    trial.failed += one.failed + one.unsent;
    if (!load_.RealTime(stream)) {
      if (place.window == kBoth) trial.background.push_back(one.per_second);
      continue;
    }
    if (one.latencies_ms.empty() && one.failed > 0) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("system {}: all real-time requests have failed: {}", system.name.name,
                              one.error));
    }
    if (place.window == kAlone) LAGOON_RETURN_IF_ERROR(CheckRate(system, window, stream, one));
    std::vector<double>& all = real_time.latencies_ms;
    all.insert(all.end(), one.latencies_ms.begin(), one.latencies_ms.end());
    const std::size_t lost =
        static_cast<std::size_t>(one.failed) + static_cast<std::size_t>(one.unsent);
    all.insert(all.end(), lost, options_.seconds * 1e3);
  }
  const auto late = std::ranges::count_if(
      real_time.latencies_ms, [&](double ms) { return ms > options_.scenario.deadline_ms; });
  real_time.late = static_cast<double>(late) / static_cast<double>(real_time.latencies_ms.size());
  return {};
}

Interval RobotBenchmark::Add(Evidence& evidence, const std::string& name,
                             const std::vector<double>& values) const {
  const Interval interval = evidence.Add(name, values);
  report_.Metric(name + "_low", interval.low);
  report_.Metric(name + "_high", interval.high);
  return interval;
}

void RobotBenchmark::WriteLatency(System& system, Evidence& evidence) const {
  const std::string& name = system.name.name;
  const bool enough =
      system.trials.front()->windows[kBoth].latencies_ms.size() >= kSamplesForWindowP99;
  for (const int percent : {50, 90, 99}) {
    if (percent == 99 && !enough) continue;
    system.tail = Add(evidence, fmt::format("robot_latency_normalized_p{}.{}", percent, name),
                      system.Each([&](const Trial& trial) {
                        return Percentile(trial.windows[kBoth].latencies_ms, percent) /
                               Percentile(trial.windows[kAlone].latencies_ms, percent);
                      }));
    for (const Window window : {kAlone, kBoth}) {
      report_.Metric(fmt::format("robot_latency_ms_p{}.{}.{}", percent, name, kWindows[window]),
                     Percentile(system.Pool(window), percent));
    }
  }
  const auto late = [&](Window window) {
    return system.Each([&](const Trial& trial) { return trial.windows[window].late; });
  };
  system.late = Add(evidence, "robot_late_fraction." + name, late(kBoth));
  report_.Metric("robot_late_fraction." + name + ".alone", Mean(late(kAlone)));
  const std::vector<double> failed = system.Each([](const Trial& trial) { return trial.failed; });
  report_.Metric("robot_failed_requests." + name,
                 std::accumulate(failed.begin(), failed.end(), 0.0));
}

double RobotBenchmark::Work(const Trial& trial) const {
  return std::inner_product(trial.background.begin(), trial.background.end(),
                            alone_per_second_.begin(), 0.0, std::plus(), std::divides());
}

void RobotBenchmark::WriteBackground(const System& system, Evidence& evidence) const {
  const std::string name = "robot_background_per_second." + system.name.name;
  Add(evidence, name, system.Each([](const Trial& trial) { return trial.background_sum(); }));
  for (std::size_t i = 0; i < alone_per_second_.size(); ++i) {
    evidence.Add(name + "." + load_.models[i + 1].name,
                 system.Each([&](const Trial& trial) { return trial.background[i]; }));
  }
  Add(evidence, "robot_background_work." + system.name.name,
      system.Each([&](const Trial& trial) { return Work(trial); }));
}

const System* RobotBenchmark::BestOfOs() const {
  std::vector<const System*> settings;
  std::vector<SettingShown> shown;
  for (const System& one : systems_) {
    if (one.name.lagoon()) continue;
    settings.push_back(&one);
    shown.push_back({one.tail.median, one.late.median > 0,
                     Median(one.Each([&](const Trial& trial) { return Work(trial); }))});
  }
  return settings.empty() ? nullptr : settings[BestSetting(shown)];
}

void RobotBenchmark::Judge(const System& system, const System* best, Evidence& evidence) const {
  const std::string& name = system.name.name;
  if (best != nullptr && Median(best->Each([&](const Trial& one) { return Work(one); })) > 0) {
    const auto work = [&](const System& one) {
      return one.Each([&](const Trial& trial) { return Work(trial); });
    };
    const Interval ratio = CombinedInterval(
        {work(system), work(*best)}, options_.seed,
        [](std::span<const double> medians) { return medians[0] / std::max(medians[1], 1e-6); });
    const std::string metric = "robot_background_vs_best_os." + name;
    evidence.AddInterval(metric, ratio);
    if (system.name.lagoon()) {
      evidence.Target(metric, ratio, Bound::kAtLeast, 1, system.clean && best->clean);
    }
  }
  if (!system.name.lagoon()) return;
  if (system.trials.front()->windows[kBoth].latencies_ms.size() >= kSamplesForWindowP99) {
    evidence.Target("robot_latency_normalized_p99." + name, system.tail, Bound::kAtMost, kMostTail,
                    system.clean);
  }
  evidence.Target("robot_late_fraction." + name, system.late, Bound::kAtMost, 0, system.clean);
}

void RobotBenchmark::Write(const WindowsResult& result) {
  Evidence evidence(report_, options_.seed);
  for (std::size_t i = 0; i < systems_.size(); ++i) {
    System& system = systems_[i];
    for (const std::size_t trial : result.trials[i])
      system.trials.push_back(&system.measured[trial]);
    system.clean = result.Clean(i);
    WriteLatency(system, evidence);
    WriteBackground(system, evidence);
  }
  const System* const best = BestOfOs();
  if (best != nullptr) report_.Field("best_os", best->name.name);
  for (const System& system : systems_) Judge(system, best, evidence);
  report_.Metric("windows_repeated",
                 result.summary.repeated * static_cast<double>(kWindows.size()));
  report_.Field("outputs_fetched",
                {{"lagoon", "over grpc and http: every answer goes to its client"},
                 {"onnxruntime", "no: they stay in the model's process"}});
  evidence.AddWindows(result.summary);
  PrintTable();
  evidence.Finish();
}

void RobotBenchmark::PrintTable() const {
  const auto number = [&](const std::string& metric) {
    return report_.json().at("metrics").value(metric, std::numeric_limits<double>::quiet_NaN());
  };
  std::string text =
      fmt::format("{:32} {:>20} {:>20} {:>24} {:>7} {:>9}  {}\n", "", "alone, ms", "both, ms",
                  "tail against alone", "late", "work", "background, answers/s");
  text += fmt::format("{:32} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}\n", "system", "p50", "p90", "p99",
                      "p50", "p90", "p99");
  for (const System& system : systems_) {
    const std::string& name = system.name.name;
    text += fmt::format("{:32}", name);
    for (const std::string& window : kWindows) {
      for (const int percent : {50, 90, 99}) {
        const double ms = number(fmt::format("robot_latency_ms_p{}.{}.{}", percent, name, window));
        text += std::isnan(ms) ? fmt::format(" {:>6}", "-") : fmt::format(" {:6.1f}", ms);
      }
    }
    text += fmt::format(" {:7.2f} [{:6.2f}, {:6.2f}] {:6.1f}% {:9.2f} ", system.tail.median,
                        system.tail.low, system.tail.high, 100 * system.late.median,
                        number("robot_background_work." + name));
    for (std::size_t i = 1; i < load_.models.size(); ++i) {
      text += fmt::format(
          " {} {:.1f}", load_.models[i].name,
          number(fmt::format("robot_background_per_second.{}.{}", name, load_.models[i].name)));
    }
    text += "\n";
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace

Status RunRobot(const RobotOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  LAGOON_ASSIGN_OR_RETURN(RobotLoad load, MakeLoad(options, folder.path()));
  nlohmann::json models = nlohmann::json::array();
  for (const RobotModel& model : load.models) {
    nlohmann::json inputs = nlohmann::json::object();
    for (const InputFile& input : model.inputs) inputs[input.name] = input.dims;
    models.push_back({{"name", model.name}, {"file", model.file}, {"inputs", std::move(inputs)}});
  }
  report.Field("models", std::move(models));
  return RobotBenchmark(options, std::move(load), report).Run();
}

}  // namespace lagoon::bench
