#include "bench/in_process/in_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>

#include "bench/client/temporary_folder.h"
#include "bench/in_process/judge.h"
#include "bench/measure/evidence.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

constexpr int kEmptyRuns = 2000, kApartRuns = 300;
constexpr auto kApart = std::chrono::milliseconds(1);
constexpr double kMostInTurn = 1.05;

// What a trial of a way measured.
struct Trial {
  std::vector<InProcessWindow> alone;  // by model
  InProcessWindow together;
  std::vector<std::vector<double>> in_turn_us;  // by model; empty: not in one process
  std::vector<double> empty_us, apart_us;
};

struct Side {
  InProcessWay way;
  std::vector<Trial> measured;
  std::vector<const Trial*> trials = {};  // those that count
  bool clean = false;                     // the host has not disturbed them
  nlohmann::json info = {};               // of the first trial's processes

  template <typename Read>
  std::vector<double> Each(Read read) const {
    std::vector<double> values;
    for (const Trial* trial : trials) values.push_back(read(*trial));
    return values;
  }
  template <typename Read>
  std::vector<double> Pool(Read read) const {
    std::vector<double> all;
    for (const Trial* trial : trials) {
      const std::vector<double>& one = read(*trial);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

double MedianOrNan(const std::vector<double>& values) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : Median(values);
}

class InProcessBenchmark {
 public:
  InProcessBenchmark(const InProcessOptions& options, const std::vector<InProcessWay>& ways,
                     RobotLoad load, Report& report)
      : options_(options), load_(std::move(load)), report_(report) {
    for (const InProcessWay& way : ways) sides_.push_back({way, {}});
  }

  Status Run() {
    WindowsPlan plan{.rounds = options_.rounds, .seed = options_.load.seed};
    for (const Side& side : sides_) plan.groups.push_back(side.way.name);
    for (const RobotModel& model : load_.models) plan.windows.push_back("alone " + model.name);
    plan.windows.insert(plan.windows.end(), {"together", "in turn", "empty"});
    ProgressBar progress("bench in-process",
                         static_cast<int>(plan.groups.size() * plan.windows.size()) * plan.rounds);
    plan.prepare = [this](std::size_t group) -> Status {
      Side& side = sides_[group];
      running_.reset();
      LAGOON_ASSIGN_OR_RETURN(running_, RunningWay::Open(side.way, options_.programs, load_));
      if (side.info.empty()) side.info = running_->info();
      return {};
    };
    const auto measure = [&](const WindowPlace& place) -> Status {
      LAGOON_RETURN_IF_ERROR(Measure(place));
      progress.Step(fmt::format("{}: {}", plan.groups[place.group], plan.windows[place.window]));
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
  Status Measure(const WindowPlace& place);
  void Write(const WindowsResult& result);
  void WriteLatency(const Side& side, Evidence& evidence) const;
  void WriteControl(const Side& side, Evidence& evidence) const;
  void WriteEmpty(const Side& side, Evidence& evidence) const;
  void PrintTable() const;

  /// The latencies of a model in a window.
  const std::vector<double>& LatenciesOf(const InProcessWindow& window, std::size_t model) const {
    return model == 0 ? window.latencies_us : window.loops[model].latencies_us;
  }
  Nanoseconds TogetherLength() const {
    return PeriodOf(load_) * std::max(1, options_.steps / options_.rounds);
  }
  std::vector<std::size_t> Neighbours() const {
    std::vector<std::size_t> models(load_.models.size() - 1);
    std::iota(models.begin(), models.end(), std::size_t{1});
    return models;
  }

  const InProcessOptions& options_;
  const RobotLoad load_;
  Report& report_;
  std::vector<Side> sides_;
  std::unique_ptr<RunningWay> running_;
};

Status InProcessBenchmark::Measure(const WindowPlace& place) {
  Side& side = sides_[place.group];
  if (side.measured.size() <= place.trial) {
    side.measured.emplace_back().alone.resize(load_.models.size());
  }
  Trial& trial = side.measured[place.trial];
  const Nanoseconds length = FromSeconds(options_.seconds);
  const std::size_t models = load_.models.size();
  if (place.window < models) {
    const std::size_t model = place.window;
    const std::vector<std::size_t> loops =
        model == 0 ? std::vector<std::size_t>{} : std::vector<std::size_t>{model};
    LAGOON_ASSIGN_OR_RETURN(trial.alone[model], running_->Window(model == 0, loops, length));
    if (!LatenciesOf(trial.alone[model], model).empty()) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("way {}: '{}' alone gave no answer by its deadlines in --seconds {:g}: "
                            "give a lower --rate",
                            side.way.name, load_.models[model].name, options_.seconds));
  }
  if (place.window == models) {
    LAGOON_ASSIGN_OR_RETURN(trial.together, running_->Window(true, Neighbours(), TogetherLength()));
  } else if (place.window == models + 1) {
    if (!running_->one_process()) return {};
    LAGOON_ASSIGN_OR_RETURN(trial.in_turn_us, running_->InTurn(length));
  } else {
    LAGOON_ASSIGN_OR_RETURN(trial.empty_us, running_->Empty(kEmptyRuns, Nanoseconds{0}));
    LAGOON_ASSIGN_OR_RETURN(trial.apart_us, running_->Empty(kApartRuns, kApart));
  }
  return {};
}

void InProcessBenchmark::WriteLatency(const Side& side, Evidence& evidence) const {
  const std::string way = side.way.name;
  for (std::size_t i = 0; i < load_.models.size(); ++i) {
    const std::string name = way + "." + load_.models[i].name;
    evidence.Add("together_over_alone." + name, side.Each([&](const Trial& trial) {
      return MedianOrNan(LatenciesOf(trial.together, i)) / Median(LatenciesOf(trial.alone[i], i));
    }));
    evidence.Add("alone_ms_p50." + name, side.Each([&](const Trial& trial) {
      return Median(LatenciesOf(trial.alone[i], i)) / 1e3;
    }));
    if (i == 0) continue;
    evidence.Add("per_second." + name,
                 side.Each([&](const Trial& trial) { return trial.together.loops[i].per_second; }));
  }
  evidence.Add("work." + way, side.Each([&](const Trial& trial) {
    double work = 0;
    for (const std::size_t i : Neighbours()) {
      work += trial.together.loops[i].per_second / trial.alone[i].loops[i].per_second;
    }
    return work;
  }));
  const Interval in_turn =
      evidence.Add("in_turn_over_alone." + way, side.Each([&](const Trial& trial) {
        double sum = 0, alone = 0;
        for (std::size_t i = 0; i < trial.in_turn_us.size(); ++i) {
          sum += MedianOrNan(trial.in_turn_us[i]);
          alone += Median(i == 0 ? trial.alone[0].runs_us : trial.alone[i].loops[i].latencies_us);
        }
        return sum / alone;  // not a number: not in one process
      }));
  if (side.way.engine != std::string("ort")) {
    evidence.Target("in_turn_over_alone." + way, in_turn, Bound::kAtMost, kMostInTurn, side.clean);
  }
}

void InProcessBenchmark::WriteControl(const Side& side, Evidence& evidence) const {
  const std::string way = side.way.name;
  const int steps = static_cast<int>(TogetherLength() / PeriodOf(load_));
  const auto missed = [](const std::vector<double>& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0.0);
  };
  report_.Metric("control_steps." + way, steps * static_cast<double>(side.trials.size()));
  report_.Metric("missed_deadlines." + way, missed(side.Each([](const Trial& trial) {
                   return static_cast<double>(trial.together.missed());
                 })));
  report_.Metric("missed_alone." + way, missed(side.Each([](const Trial& trial) {
                   return static_cast<double>(trial.alone[0].missed());
                 })));
  const Interval fraction =
      evidence.Add("missed_fraction." + way, side.Each([&](const Trial& trial) {
        return static_cast<double>(trial.together.missed()) / steps;
      }));
  if (side.way.engine != std::string("ort")) {
    evidence.Target("missed_fraction." + way, fraction, Bound::kAtMost, 0, side.clean);
  }
  const auto describe = [&](const std::string& suffix, const std::vector<double>& latencies) {
    if (latencies.empty()) return;
    report_.Metric("control_us_p50." + way + suffix, Percentile(latencies, 50));
    if (latencies.size() >= kSamplesForWindowP99) {
      report_.Metric("control_us_p99." + way + suffix, Percentile(latencies, 99));
    }
    report_.Metric("control_us_max." + way + suffix, std::ranges::max(latencies));
  };
  describe(
      "", side.Pool([](const Trial& trial) -> const auto& { return trial.together.latencies_us; }));
  describe(".alone", side.Pool([](const Trial& trial) -> const auto& {
    return trial.alone[0].latencies_us;
  }));
}

void InProcessBenchmark::WriteEmpty(const Side& side, Evidence& evidence) const {
  const std::string way = side.way.name;
  for (const int percent : {50, 99}) {
    evidence.Add(fmt::format("added_us_p{}.{}", percent, way), side.Each([&](const Trial& trial) {
      return Percentile(trial.empty_us, percent);
    }));
    evidence.Add(
        fmt::format("added_apart_us_p{}.{}", percent, way),
        side.Each([&](const Trial& trial) { return Percentile(trial.apart_us, percent); }));
  }
}

void InProcessBenchmark::Write(const WindowsResult& result) {
  Evidence evidence(report_, options_.load.seed);
  nlohmann::json processes = nlohmann::json::object();
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    Side& side = sides_[i];
    for (const std::size_t trial : result.trials[i]) side.trials.push_back(&side.measured[trial]);
    side.clean = result.Clean(i);
    WriteLatency(side, evidence);
    WriteControl(side, evidence);
    WriteEmpty(side, evidence);
    processes[side.way.name] = side.info;
  }
  report_.Field("processes", std::move(processes));
  evidence.AddWindows(result.summary);
  PrintTable();
  evidence.Finish();
}

void InProcessBenchmark::PrintTable() const {
  const auto number = [&](const std::string& metric) {
    return report_.json().at("metrics").value(metric, std::numeric_limits<double>::quiet_NaN());
  };
  std::string text =
      fmt::format("{:16} {:>16} {:>22} {:>8} {:>8} {:>6}  {}\n", "way", "missed deadlines",
                  "control us: p50 p99 max", "added us", "in turn", "work", "together over alone");
  for (const Side& side : sides_) {
    const std::string way = side.way.name;
    text += fmt::format(
        "{:16} {:>6.0f} of {:>6.0f} {:>7.0f} {:>7.0f} {:>7.0f} {:>8.1f} {:>8.2f} {:>6.2f} ", way,
        number("missed_deadlines." + way), number("control_steps." + way),
        number("control_us_p50." + way), number("control_us_p99." + way),
        number("control_us_max." + way), number("added_us_p50." + way),
        number("in_turn_over_alone." + way), number("work." + way));
    for (const RobotModel& model : load_.models) {
      text += fmt::format(" {} {:.2f}", model.name,
                          number("together_over_alone." + way + "." + model.name));
    }
    text += "\n";
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace

Result<std::vector<InProcessWay>> ParseInProcessWays(const std::vector<std::string>& words) {
  std::vector<InProcessWay> ways;
  std::vector<std::string> known;
  for (const InProcessWay& way : InProcessWays()) known.emplace_back(way.name);
  for (const std::string& word : words) {
    const auto found = std::ranges::find(known, word);
    if (found == known.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is no way; there are {}", word, fmt::join(known, ", ")));
    }
    ways.push_back(InProcessWays()[static_cast<std::size_t>(found - known.begin())]);
  }
  return ways;
}

Status RunInProcess(const InProcessOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<InProcessWay> ways, ParseInProcessWays(options.ways));
  LAGOON_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  LAGOON_ASSIGN_OR_RETURN(RobotLoad load, MakeLoad(options.load, folder.path()));
  nlohmann::json models = nlohmann::json::array();
  for (const RobotModel& model : load.models) {
    nlohmann::json inputs = nlohmann::json::object();
    for (const InputFile& input : model.inputs) inputs[input.name] = input.dims;
    models.push_back({{"name", model.name}, {"file", model.file}, {"inputs", std::move(inputs)}});
  }
  report.Field("models", std::move(models));
  if (!ways.empty()) {
    LAGOON_RETURN_IF_ERROR(InProcessBenchmark(options, ways, std::move(load), report).Run());
  }
  return options.judge.empty() ? Status{} : JudgePlugin(options, report);
}

}  // namespace lagoon::bench
