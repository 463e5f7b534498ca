#include "bench/contention.h"

#include <fmt/format.h>

#include <limits>
#include <thread>

#include "bench/clients.h"
#include "bench/statistics.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Seconds kSettle{0.25};          // before a window counts
constexpr Seconds kBestEffortAlone{2.0};  // length of its windows
constexpr int kStandaloneRuns = 30;

// What one system showed over all its windows.
struct Observed {
  std::vector<double> alone_ms, contended_ms, preemption_us;
  std::vector<double> best_effort_alone,
      best_effort_contended;  // completions per second, one a window
  std::vector<double> idle_while_ready;
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
};

Nanoseconds IntervalFor(double standalone_ms, double load) {
  return std::chrono::duration_cast<Nanoseconds>(
      std::chrono::duration<double, std::milli>(standalone_ms / load));
}

// ---- Lagoon

// Both models on one device; a dispatcher for each turn of each scheduler.
class LagoonSide {
 public:
  static Result<std::unique_ptr<LagoonSide>> Open(const ContentionOptions& options) {
    std::unique_ptr<LagoonSide> side(new LagoonSide(options.trace));
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

  Nanoseconds interval() const { return interval_; }
  const DispatcherStats& totals() const { return totals_; }

  // One turn: alone, best-effort alone, both.
  Status Turn(const std::string& scheduler_name, int requests, std::mt19937& random,
              Observed& seen) {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(scheduler_name));
    Dispatcher dispatcher(device(), scheduler.config, std::move(scheduler.policy), trace_);
    LAGOON_ASSIGN_OR_RETURN(const QueueId urgent,
                            AddQueue(dispatcher, JobClass::kRealTime, *real_time_));
    LAGOON_ASSIGN_OR_RETURN(const QueueId background,
                            AddQueue(dispatcher, JobClass::kBestEffort, *best_effort_));
    OpenLoopClient producer(dispatcher, urgent, *real_time_);
    ClosedLoopClient loop(dispatcher, background, *best_effort_);

    for (const Sample& sample : producer.Run(Arrivals(requests, interval_, random).times)) {
      seen.alone_ms.push_back(sample.latency_ms);
    }

    loop.Start();
    std::this_thread::sleep_for(kSettle);
    const TimePoint begin = Now();
    std::this_thread::sleep_for(kBestEffortAlone);
    const TimePoint end = Now();
    seen.best_effort_alone.push_back(Throughput(loop.Stop(), begin, end));

    loop.Start();
    const Arrivals arrivals(requests, interval_, random);
    std::jthread meter([&] { MeasureIdle(arrivals, seen); });
    for (const Sample& sample : producer.Run(arrivals.times)) {
      seen.contended_ms.push_back(sample.latency_ms);
      seen.preemption_us.push_back(sample.preemption_us);
    }
    meter.join();
    seen.best_effort_contended.push_back(Throughput(loop.Stop(), arrivals.begin, arrivals.end));
    totals_ = dispatcher.Stats();
    return {};
  }

 private:
  explicit LagoonSide(TraceRecorder* trace) : trace_(trace) {}

  Device& device() { return *on_.device; }

  static Result<QueueId> AddQueue(Dispatcher& dispatcher, JobClass job_class, BoundModel& model) {
    QueueOptions options;
    options.name = model.instance().plan().model;
    options.job_class = job_class;
    options.instances = {&model.instance()};
    options.max_pending = 100000;  // nothing is dropped: lateness shows as latency
    return dispatcher.AddQueue(std::move(options));
  }

  void MeasureIdle(const Arrivals& arrivals, Observed& seen) const {
    std::this_thread::sleep_until(arrivals.begin);
    const UnitTimes before = on_.device->Times();
    const TimePoint from = Now();
    std::this_thread::sleep_until(arrivals.end);
    const Nanoseconds idle = on_.device->Times().idle_while_ready - before.idle_while_ready;
    const Nanoseconds units = (Now() - from) * on_.device->info().units;
    seen.idle_while_ready.push_back(static_cast<double>(idle.count()) /
                                    static_cast<double>(units.count()));
  }

  TraceRecorder* const trace_;
  // Last to go: the device's threads use the models' memory.
  std::unique_ptr<BoundModel> real_time_;
  std::unique_ptr<BoundModel> best_effort_;
  ComputeDevice on_;
  Nanoseconds interval_{0};
  DispatcherStats totals_;
};

// ---- ONNX Runtime

struct Setting {
  std::string name;
  OnnxRuntimeOptions real_time;
  OnnxRuntimeOptions best_effort;
};

// What a user tries: defaults, no spinning, one core each, the operating system's priorities.
std::vector<Setting> Settings(const OnnxRuntimeOptions& base) {
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

class OnnxRuntimeSide {
 public:
  static Result<std::unique_ptr<OnnxRuntimeSide>> Open(const ContentionOptions& options,
                                                       const Setting& setting) {
    auto side = std::make_unique<OnnxRuntimeSide>();
    LAGOON_ASSIGN_OR_RETURN(
        side->real_time_,
        OnnxRuntimeProcess::Start(ModelFile(options.zoo, options.real_time), setting.real_time));
    LAGOON_ASSIGN_OR_RETURN(side->best_effort_,
                            OnnxRuntimeProcess::Start(ModelFile(options.zoo, options.best_effort),
                                                      setting.best_effort));
    return side;
  }

  Result<double> StandaloneMs() {
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, real_time_->Run(kStandaloneRuns, 5));
    return Median(us) / 1e3;
  }

  Status Alone(int requests, Nanoseconds interval, std::mt19937& random, Observed& seen) {
    const Arrivals arrivals(requests, interval, random);
    LAGOON_RETURN_IF_ERROR(real_time_->BeginOpenLoop(arrivals.begin, arrivals.OffsetsUs()));
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, real_time_->EndOpenLoop());
    for (const double latency : us) seen.alone_ms.push_back(latency / 1e3);
    const TimePoint begin = Now() + std::chrono::duration_cast<Nanoseconds>(kSettle);
    const TimePoint end = begin + std::chrono::duration_cast<Nanoseconds>(kBestEffortAlone);
    LAGOON_ASSIGN_OR_RETURN(const double rate, Loop(begin, end, [] { return Status(); }));
    seen.best_effort_alone.push_back(rate);
    return {};
  }

  Status Contended(int requests, Nanoseconds interval, std::mt19937& random, Observed& seen) {
    const Arrivals arrivals(requests, interval, random);
    const auto real_time = [&]() -> Status {
      LAGOON_RETURN_IF_ERROR(real_time_->BeginOpenLoop(arrivals.begin, arrivals.OffsetsUs()));
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, real_time_->EndOpenLoop());
      for (const double latency : us) seen.contended_ms.push_back(latency / 1e3);
      return {};
    };
    LAGOON_ASSIGN_OR_RETURN(const double rate, Loop(arrivals.begin, arrivals.end, real_time));
    seen.best_effort_contended.push_back(rate);
    return {};
  }

 private:
  // The best-effort model from before `begin` until `end`, with `beside` at the same time.
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

  std::unique_ptr<OnnxRuntimeProcess> real_time_;
  std::unique_ptr<OnnxRuntimeProcess> best_effort_;
};

// ---- Report

// `reference`: what the system is normalised by; its own windows alone, or the default setting's.
void ReportSystem(const std::string& name, const Observed& seen, const Observed& reference,
                  Nanoseconds interval, Report& report) {
  const bool enough =
      seen.contended_ms.size() >= kSamplesForP99 && reference.alone_ms.size() >= kSamplesForP99;
  const int tail = enough ? 99 : 90;
  for (const int percent : {50, tail}) {
    const double alone = Percentile(reference.alone_ms, percent);
    const double contended = Percentile(seen.contended_ms, percent);
    report.Metric(fmt::format("realtime_latency_normalized_p{}.{}", percent, name),
                  contended / alone);
    report.Metric(fmt::format("realtime_latency_ms_p{}.{}.alone", percent, name), alone);
    report.Metric(fmt::format("realtime_latency_ms_p{}.{}.contended", percent, name), contended);
    if (!seen.preemption_us.empty()) {
      report.Metric(fmt::format("preemption_us_p{}.{}", percent, name),
                    Percentile(seen.preemption_us, percent));
    }
  }
  const double busy = Mean(reference.alone_ms) / ToMilliseconds(interval);
  const double alone = Median(reference.best_effort_alone);
  const double contended = Median(seen.best_effort_contended);
  report.Metric("best_effort_share_of_leftover." + name, contended / (alone * (1 - busy)));
  report.Metric("best_effort_per_s." + name + ".alone", alone);
  report.Metric("best_effort_per_s." + name + ".contended", contended);
  report.Metric("realtime_busy_fraction." + name, busy);
  if (!seen.idle_while_ready.empty()) {
    report.Metric("idle_while_ready_fraction." + name, Median(seen.idle_while_ready));
  }
  report.Metric("realtime_requests." + name, static_cast<double>(seen.contended_ms.size()));
}

Status RunLagoon(const ContentionOptions& options, Progress& progress, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<LagoonSide> side, LagoonSide::Open(options));
  std::vector<Observed> seen(options.schedulers.size());
  std::vector<DispatcherStats> totals(options.schedulers.size());
  std::mt19937 random(options.seed);
  const int requests = (options.requests + options.windows - 1) / options.windows;
  for (int window = 0; window < options.windows; ++window) {
    for (std::size_t i = 0; i < options.schedulers.size(); ++i) {
      LAGOON_RETURN_IF_ERROR(side->Turn(options.schedulers[i], requests, random, seen[i]));
      totals[i].revocations += side->totals().revocations;
      totals[i].resumed_blocks += side->totals().resumed_blocks;
      progress.Step(options.schedulers[i]);
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ReportSystem(options.schedulers[i], seen[i], seen[i], side->interval(), report);
    report.Metric("revocations." + options.schedulers[i],
                  static_cast<double>(totals[i].revocations));
    report.Metric("resumed_blocks." + options.schedulers[i],
                  static_cast<double>(totals[i].resumed_blocks));
  }
  return {};
}

Status RunOnnxRuntime(const ContentionOptions& options, Progress& progress, Report& report) {
  const std::vector<Setting> settings = Settings(options.onnxruntime);
  std::vector<std::unique_ptr<OnnxRuntimeSide>> sides;
  for (const Setting& setting : settings) {
    LAGOON_ASSIGN_OR_RETURN(sides.emplace_back(), OnnxRuntimeSide::Open(options, setting));
  }
  LAGOON_ASSIGN_OR_RETURN(const double standalone_ms, sides.front()->StandaloneMs());
  const Nanoseconds interval = IntervalFor(standalone_ms, options.load);
  std::vector<Observed> seen(settings.size());
  std::mt19937 random(options.seed);
  const int requests = (options.requests + options.windows - 1) / options.windows;
  for (int window = 0; window < options.windows; ++window) {
    LAGOON_RETURN_IF_ERROR(sides.front()->Alone(requests, interval, random, seen.front()));
    for (std::size_t i = 0; i < sides.size(); ++i) {
      LAGOON_RETURN_IF_ERROR(sides[i]->Contended(requests, interval, random, seen[i]));
      progress.Step(settings[i].name);
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ReportSystem(settings[i].name, seen[i], seen.front(), interval, report);
  }
  return {};
}

}  // namespace

Status RunContention(const ContentionOptions& options, Report& report) {
  const std::size_t systems =
      options.schedulers.size() +
      (options.against_onnxruntime ? Settings(options.onnxruntime).size() : 0);
  Progress progress("bench contention", static_cast<int>(systems) * options.windows);
  LAGOON_RETURN_IF_ERROR(RunLagoon(options, progress, report));
  if (!options.against_onnxruntime) return {};
  return RunOnnxRuntime(options, progress, report);
}

}  // namespace lagoon::bench
