#include "bench/live/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>

#include "bench/client/clients.h"
#include "bench/live/leftover.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
// The measurement sleeps for these two lengths of time, because no event marks their ends. Work
// runs for kSettle before a window begins, so that the window does not see cold caches and empty
// queues. kBestEffortAlone is the length of a window of best-effort work alone: what completes in
// it counts.
constexpr Seconds kSettle{0.25};
constexpr Seconds kBestEffortAlone{2.0};
constexpr int kStandaloneRuns = 30;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The windows of a trial, which are compared with each other.
enum Window : std::size_t { kRealTimeAlone, kBestEffort, kBoth };
const std::vector<std::string> kWindows = {"alone", "best-effort", "both"};

// The results of one system in one trial.
struct Trial {
  std::vector<double> alone_ms, contended_ms, preemption_us;
  double busy = kUnknown;  // part of the window "alone" with a real-time request under way
  double best_effort_alone = 0, best_effort_contended = 0;  // completions per second
  double idle_while_ready = kUnknown;                       // part of the units' time
  DispatcherStats totals;
};

// Evenly spaced arrivals of one window.
struct Arrivals {
  TimePoint begin;
  Nanoseconds interval{0};
  std::vector<TimePoint> times;
  TimePoint end;

  Arrivals(int count, Nanoseconds spacing, std::mt19937& random) : interval(spacing) {
    begin = Now() + std::chrono::duration_cast<Nanoseconds>(kSettle);
    const auto phase = Nanoseconds(random() % static_cast<std::uint64_t>(spacing.count()));
    for (int i = 0; i < count; ++i) times.push_back(begin + phase + i * spacing);
    end = begin + count * spacing;
  }
  std::vector<double> OffsetsUs() const {
    std::vector<double> offsets;
    for (const TimePoint time : times) offsets.push_back(ToMicroseconds(time - begin));
    return offsets;
  }
  // The busy part of a window of real-time work alone with these latencies.
  double Busy(const std::vector<double>& latencies_ms) const {
    std::vector<double> arrivals_ms;
    for (const double us : OffsetsUs()) arrivals_ms.push_back(us / 1e3);
    return BusyFraction(arrivals_ms, latencies_ms, ToMilliseconds(end - begin));
  }
};

Nanoseconds IntervalFor(double standalone_ms, double load) {
  return std::chrono::duration_cast<Nanoseconds>(
      std::chrono::duration<double, std::milli>(standalone_ms / load));
}

// ---- Lagoon

// Both models on one device; each window has a new dispatcher.
class LagoonPair {
 public:
  static Result<std::unique_ptr<LagoonPair>> Open(const ContentionOptions& options) {
    std::unique_ptr<LagoonPair> side(new LagoonPair(options.trace));
    LAGOON_ASSIGN_OR_RETURN(side->on_, OpenDevice(options.device));
    LAGOON_ASSIGN_OR_RETURN(
        side->real_time_,
        BoundModel::Load(ModelFile(options.zoo, options.real_time), options.real_time, side->on_));
    LAGOON_ASSIGN_OR_RETURN(side->best_effort_,
                            BoundModel::Load(ModelFile(options.zoo, options.best_effort),
                                             options.best_effort, side->on_));
    std::vector<double> standalone_ms;
    for (int i = 0; i < kStandaloneRuns; ++i) {
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(side->real_time_->Run(side->device()));
      standalone_ms.push_back(ToMilliseconds(Now() - begin));
    }
    side->interval_ = IntervalFor(Median(standalone_ms), options.load);
    if (options.trace != nullptr) options.trace->Attach(side->device());
    return side;
  }

  Status Measure(const std::string& scheduler_name, Window window, int requests,
                 std::mt19937& random, Trial& trial) {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(scheduler_name));
    Dispatcher dispatcher(device(), scheduler.config, std::move(scheduler.policy), trace_);
    LAGOON_ASSIGN_OR_RETURN(const QueueId urgent,
                            AddQueue(dispatcher, JobClass::kRealTime, *real_time_));
    LAGOON_ASSIGN_OR_RETURN(const QueueId background,
                            AddQueue(dispatcher, JobClass::kBestEffort, *best_effort_));
    OpenLoopClient producer(dispatcher, urgent, *real_time_);
    ClosedLoopClient loop(dispatcher, background, *best_effort_);
    if (window == kRealTimeAlone) {
      const Arrivals arrivals(requests, interval_, random);
      for (const Sample& sample : producer.Run(arrivals.times)) {
        trial.alone_ms.push_back(sample.latency_ms);
      }
      trial.busy = arrivals.Busy(trial.alone_ms);
    } else if (window == kBestEffort) {
      loop.Start();
      std::this_thread::sleep_for(kSettle);
      const TimePoint begin = Now();
      std::this_thread::sleep_for(kBestEffortAlone);
      const TimePoint end = Now();
      trial.best_effort_alone = Throughput(loop.Stop(), begin, end);
    } else {
      loop.Start();
      const Arrivals arrivals(requests, interval_, random);
      std::jthread meter([&] { MeasureIdle(arrivals, trial); });
      for (const Sample& sample : producer.Run(arrivals.times)) {
        trial.contended_ms.push_back(sample.latency_ms);
        trial.preemption_us.push_back(sample.preemption_us);
      }
      meter.join();
      trial.best_effort_contended = Throughput(loop.Stop(), arrivals.begin, arrivals.end);
      trial.totals = dispatcher.Stats();
    }
    return {};
  }

 private:
  explicit LagoonPair(TraceRecorder* trace) : trace_(trace) {}

  Device& device() { return *on_.device; }

  static Result<QueueId> AddQueue(Dispatcher& dispatcher, JobClass job_class, BoundModel& model) {
    QueueOptions options;
    options.name = model.instance().plan().model;
    options.job_class = job_class;
    options.instances = {&model.instance()};
    options.max_pending = 100000;  // no request is dropped: lateness shows as latency
    return dispatcher.AddQueue(std::move(options));
  }

  void MeasureIdle(const Arrivals& arrivals, Trial& trial) const {
    std::this_thread::sleep_until(arrivals.begin);
    const UnitTimes before = on_.device->Times();
    const TimePoint from = Now();
    std::this_thread::sleep_until(arrivals.end);
    const Nanoseconds idle = on_.device->Times().idle_while_ready - before.idle_while_ready;
    const Nanoseconds units = (Now() - from) * on_.device->info().units;
    trial.idle_while_ready = static_cast<double>(idle.count()) / static_cast<double>(units.count());
  }

  TraceRecorder* const trace_;
  // Declared before the device, so that they outlive it: its threads use the models' memory.
  std::unique_ptr<BoundModel> real_time_;
  std::unique_ptr<BoundModel> best_effort_;
  ComputeDevice on_;
  Nanoseconds interval_{0};
};

// ---- ONNX Runtime

struct Setting {
  std::string name;
  ComparatorOptions real_time;
  ComparatorOptions best_effort;
};

// The settings that a user tries: the defaults, no spinning, one core per process, and the
// operating system's priorities.
std::vector<Setting> Settings(const ComparatorOptions& base) {
  Setting defaults{"onnxruntime-default", base, base};
  Setting quiet{"onnxruntime-no-spinning", base, base};
  quiet.real_time.spinning = quiet.best_effort.spinning = false;
  Setting pinned{"onnxruntime-pinned", base, base};
  pinned.real_time.threads = pinned.best_effort.threads = 1;
  pinned.real_time.cpus = "0";
  pinned.best_effort.cpus = "1";
  Setting nice = quiet;
  nice.name = "onnxruntime-nice19";
  nice.best_effort.nice = 19;
  return {defaults, quiet, pinned, nice};
}

class OnnxRuntimePair {
 public:
  static Result<std::unique_ptr<OnnxRuntimePair>> Open(const ContentionOptions& options,
                                                       const Setting& setting) {
    auto side = std::make_unique<OnnxRuntimePair>();
    LAGOON_ASSIGN_OR_RETURN(
        side->real_time_,
        ComparatorProcess::Start(ModelFile(options.zoo, options.real_time), setting.real_time));
    LAGOON_ASSIGN_OR_RETURN(
        side->best_effort_,
        ComparatorProcess::Start(ModelFile(options.zoo, options.best_effort), setting.best_effort));
    return side;
  }

  Result<double> StandaloneMs() {
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, real_time_->Run(kStandaloneRuns, 5));
    return Median(us) / 1e3;
  }

  Status Measure(Window window, int requests, Nanoseconds interval, std::mt19937& random,
                 Trial& trial) {
    const Arrivals arrivals(requests, interval, random);
    const auto real_time = [&](std::vector<double>& latencies_ms) -> Status {
      LAGOON_RETURN_IF_ERROR(real_time_->BeginOpenLoop(arrivals.begin, arrivals.OffsetsUs()));
      LAGOON_ASSIGN_OR_RETURN(const auto answered, real_time_->EndOpenLoop());
      for (const double us : answered.latencies_us) latencies_ms.push_back(us / 1e3);
      return {};
    };
    if (window == kRealTimeAlone) {
      LAGOON_RETURN_IF_ERROR(real_time(trial.alone_ms));
      trial.busy = arrivals.Busy(trial.alone_ms);
    } else if (window == kBestEffort) {
      const TimePoint end =
          arrivals.begin + std::chrono::duration_cast<Nanoseconds>(kBestEffortAlone);
      LAGOON_ASSIGN_OR_RETURN(trial.best_effort_alone,
                              Loop(arrivals.begin, end, [] { return Status(); }));
    } else {
      LAGOON_ASSIGN_OR_RETURN(trial.best_effort_contended, Loop(arrivals.begin, arrivals.end, [&] {
                                return real_time(trial.contended_ms);
                              }));
    }
    return {};
  }

 private:
  // Runs the best-effort model from before `begin` until `end`, and `beside` at the same time.
  // Returns best-effort completions per second.
  template <typename Beside>
  Result<double> Loop(TimePoint begin, TimePoint end, Beside beside) {
    const TimePoint from = Now();
    LAGOON_RETURN_IF_ERROR(best_effort_->BeginLoop(from, end));
    LAGOON_RETURN_IF_ERROR(beside());
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, best_effort_->EndLoop());
    std::vector<TimePoint> completions;
    for (const double offset : us) {
      completions.push_back(from + Nanoseconds(static_cast<std::int64_t>(offset * 1e3)));
    }
    return Throughput(completions, begin, end);
  }

  std::unique_ptr<ComparatorProcess> real_time_;
  std::unique_ptr<ComparatorProcess> best_effort_;
};

// ---- All systems

// A scheduler, or a setting of ONNX Runtime.
struct System {
  std::string name;
  std::function<Status(Window, Trial&)> measure;
  std::vector<Trial> trials;
};

template <typename Read>
std::vector<double> Each(const std::vector<const Trial*>& trials, Read read) {
  std::vector<double> values;
  for (const Trial* trial : trials) values.push_back(read(*trial));
  return values;
}

std::vector<double> Pool(const std::vector<const Trial*>& trials,
                         std::vector<double> Trial::*samples) {
  std::vector<double> all;
  for (const Trial* trial : trials) {
    all.insert(all.end(), (trial->*samples).begin(), (trial->*samples).end());
  }
  return all;
}

// A metric of a system: METRIC.SYSTEM, or of one kind of its windows METRIC.SYSTEM.WINDOW.
MetricName ContentionMetric(std::string metric, const std::string& system,
                            const std::string& window = "") {
  return {std::move(metric),
          {window.empty() ? system : system + "." + window, system, "queue", window}};
}

// The schedulers with targets, and the targets (bench/results/tables.md).
constexpr const char* kJudged[] = {"reset", "lagoon"};
constexpr double kMostTail = 1.10, kLeastShare = 0.90, kMostIdle = 0.02;

class SystemReport {
 public:
  SystemReport(const System& system, std::vector<const Trial*> trials, bool clean,
               Evidence& evidence, Report& report)
      : name_(system.name),
        trials_(std::move(trials)),
        clean_(clean),
        evidence_(evidence),
        report_(report) {}

  void Write() {
    const auto requests = Pool(trials_, &Trial::contended_ms).size();
    const bool enough =
        requests >= kSamplesForP99 && trials_.front()->contended_ms.size() >= kSamplesForWindowP99;
    const int tail = enough ? 99 : 90;
    for (const int percent : {50, tail}) Latency(percent);
    if (tail == 99) Target("realtime_latency_normalized_p99", tail_, Bound::kAtMost, kMostTail);
    BestEffort();
    report_.Metric(ContentionMetric("realtime_requests", name_), static_cast<double>(requests));
  }
  bool leftover_known() const { return leftover_known_; }

 private:
  void Latency(int percent) {
    const auto ratio = [&](const Trial& trial) {
      return Percentile(trial.contended_ms, percent) / Percentile(trial.alone_ms, percent);
    };
    tail_ = evidence_.Add(
        ContentionMetric(fmt::format("realtime_latency_normalized_p{}", percent), name_),
        Each(trials_, ratio));
    const std::string ms = fmt::format("realtime_latency_ms_p{}", percent);
    report_.Metric(ContentionMetric(ms, name_, "alone"),
                   Percentile(Pool(trials_, &Trial::alone_ms), percent));
    report_.Metric(ContentionMetric(ms, name_, "contended"),
                   Percentile(Pool(trials_, &Trial::contended_ms), percent));
    const std::vector<double> preemption = Pool(trials_, &Trial::preemption_us);
    if (preemption.empty()) return;
    report_.Metric(ContentionMetric(fmt::format("preemption_us_p{}", percent), name_),
                   Percentile(preemption, percent));
  }

  void BestEffort() {
    const Interval share = evidence_.Add(
        ContentionMetric("best_effort_share_of_leftover", name_),
        Each(trials_, [](const Trial& trial) {
          return LeftoverShare(trial.best_effort_alone, trial.best_effort_contended, trial.busy);
        }));
    leftover_known_ = share.pairs > 0;
    if (leftover_known_)
      Target("best_effort_share_of_leftover", share, Bound::kAtLeast, kLeastShare);
    const auto median = [&](double Trial::*member) {
      return Median(Each(trials_, [&](const Trial& trial) { return trial.*member; }));
    };
    const double busy = median(&Trial::busy);
    report_.Metric(ContentionMetric("best_effort_per_s", name_, "alone"),
                   median(&Trial::best_effort_alone));
    report_.Metric(ContentionMetric("best_effort_per_s", name_, "contended"),
                   median(&Trial::best_effort_contended));
    report_.Metric(ContentionMetric("realtime_busy_fraction", name_), busy);
    const Interval idle =
        evidence_.Add(ContentionMetric("idle_while_ready_fraction", name_),
                      Each(trials_, [](const Trial& trial) { return trial.idle_while_ready; }));
    Target("idle_while_ready_fraction", idle, Bound::kAtMost, kMostIdle);
  }

  void Target(const std::string& metric, const Interval& interval, Bound bound, double target) {
    if (std::find(std::begin(kJudged), std::end(kJudged), name_) == std::end(kJudged)) return;
    evidence_.Target(metric + "." + name_, interval, bound, target, clean_);
  }

  const std::string& name_;
  const std::vector<const Trial*> trials_;
  const bool clean_;
  Interval tail_;
  bool leftover_known_ = false;
  Evidence& evidence_;
  Report& report_;
};

// Reports a scheduler's totals over the trials that count.
void ReportRevocations(const std::string& name, const std::vector<const Trial*>& trials,
                       Report& report) {
  DispatcherStats totals;
  for (const Trial* trial : trials) {
    totals.revocations += trial->totals.revocations;
    totals.resumed_blocks += trial->totals.resumed_blocks;
  }
  report.Metric(ContentionMetric("revocations", name), static_cast<double>(totals.revocations));
  report.Metric(ContentionMetric("resumed_blocks", name),
                static_cast<double>(totals.resumed_blocks));
}

class ContentionBenchmark {
 public:
  ContentionBenchmark(const ContentionOptions& options, Report& report)
      : options_(options),
        report_(report),
        random_(options.seed),
        requests_((options.requests + options.windows - 1) / options.windows) {}

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(lagoon_, LagoonPair::Open(options_));
    for (const std::string& name : options_.schedulers) {
      systems_.push_back({name,
                          [this, name](Window window, Trial& trial) {
                            return lagoon_->Measure(name, window, requests_, random_, trial);
                          },
                          {}});
    }
    return options_.against_onnxruntime ? OpenOnnxRuntime() : Status();
  }

  Status Run() {
    WindowsPlan plan{.windows = kWindows,
                     .rounds = options_.windows,
                     .seconds = options_.seconds,
                     .seed = options_.seed};
    for (const System& system : systems_) plan.groups.push_back(system.name);
    ProgressBar progress("bench contention",
                         static_cast<int>(plan.groups.size() * kWindows.size()) * options_.windows);
    const auto measure = [&](const WindowPlace& place) -> Status {
      System& system = systems_[place.group];
      if (system.trials.size() <= place.trial) system.trials.emplace_back();
      LAGOON_RETURN_IF_ERROR(
          system.measure(static_cast<Window>(place.window), system.trials[place.trial]));
      progress.Step(system.name);
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    Write(result);
    return {};
  }

 private:
  Status OpenOnnxRuntime() {
    for (const Setting& setting : Settings(options_.onnxruntime)) {
      LAGOON_ASSIGN_OR_RETURN(sides_.emplace_back(), OnnxRuntimePair::Open(options_, setting));
      OnnxRuntimePair* const defaults = sides_.front().get();
      OnnxRuntimePair* const side = sides_.back().get();
      if (side == defaults) {
        LAGOON_ASSIGN_OR_RETURN(const double standalone_ms, side->StandaloneMs());
        onnxruntime_interval_ = IntervalFor(standalone_ms, options_.load);
      }
      // The windows "alone" always use the default setting: that is what a user gives up.
      systems_.push_back({setting.name,
                          [=, this](Window window, Trial& trial) {
                            OnnxRuntimePair& one = window == kBoth ? *side : *defaults;
                            return one.Measure(window, requests_, onnxruntime_interval_, random_,
                                               trial);
                          },
                          {}});
    }
    return {};
  }

  void Write(const WindowsResult& result) {
    Evidence evidence(report_, options_.seed);
    nlohmann::json no_leftover = nlohmann::json::array();
    for (std::size_t i = 0; i < systems_.size(); ++i) {
      std::vector<const Trial*> trials;
      for (const std::size_t trial : result.trials[i]) trials.push_back(&systems_[i].trials[trial]);
      SystemReport one(systems_[i], trials, result.Clean(i), evidence, report_);
      one.Write();
      if (!one.leftover_known()) no_leftover.push_back(systems_[i].name);
      if (i < options_.schedulers.size()) ReportRevocations(systems_[i].name, trials, report_);
      AddSamples(systems_[i].name, trials);
    }
    report_.Field("no_leftover", std::move(no_leftover));
    evidence.AddWindows(result.summary);
    evidence.Finish();
  }

  // The real-time requests of the trials that count.
  void AddSamples(const std::string& system, const std::vector<const Trial*>& trials) {
    const MeasuredSystem of = ContentionMetric("", system).system;
    const std::string job_class(Name(JobClass::kRealTime));
    report_.Samples({of, options_.real_time, job_class, true}, Pool(trials, &Trial::alone_ms));
    report_.Samples({of, options_.real_time, job_class, false}, Pool(trials, &Trial::contended_ms));
  }

  const ContentionOptions& options_;
  Report& report_;
  std::mt19937 random_;
  const int requests_;  // real-time requests per window
  std::unique_ptr<LagoonPair> lagoon_;
  std::vector<std::unique_ptr<OnnxRuntimePair>> sides_;  // by setting; the first is the default
  Nanoseconds onnxruntime_interval_{0};
  std::vector<System> systems_;
};

}  // namespace

Status RunContention(const ContentionOptions& options, Report& report) {
  ContentionBenchmark benchmark(options, report);
  LAGOON_RETURN_IF_ERROR(benchmark.Open());
  return benchmark.Run();
}

}  // namespace lagoon::bench
