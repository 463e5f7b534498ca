#include "bench/live/disb.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "base/check.h"
#include "bench/client/clients.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Nanoseconds kSettle = std::chrono::milliseconds(250);  // run before a window begins
constexpr int kStandaloneRuns = 30;

// Most repetitions of disturbed trials, as a part of all trials: a run becomes longer by at most
// this part.
constexpr double kRepeats = 0.25;

// The windows of a trial, which are compared with each other.
enum Part : std::size_t { kAlone, kAll };
const std::vector<std::string> kParts = {"real-time alone", "all"};

std::vector<TimePoint> From(TimePoint begin, std::span<const Nanoseconds> offsets) {
  std::vector<TimePoint> times;
  for (const Nanoseconds offset : offsets) times.push_back(begin + offset);
  return times;
}

// What a client did in a window. `alone_ms` is not used.
using ClientRun = ClientResult;

// Adds a request of an open loop. `inside`: it ended within the window.
void AddRequest(const Sample& sample, bool inside, ClientRun& run) {
  run.contended_ms.push_back(sample.latency_ms);
  run.from_arrival_ms.push_back(sample.from_arrival_ms);
  run.completed += inside ? 1 : 0;
}

// The result of a window goes to the part of the trial.
void Keep(ClientRun run, bool newest, Part part, ClientResult& result) {
  if (!newest) run.from_arrival_ms.clear();
  if (part == kAlone) {
    result.alone_ms = std::move(run.contended_ms);
    return;
  }
  run.alone_ms = std::move(result.alone_ms);
  result = std::move(run);
}

// ---- Lagoon

class LagoonSide {
 public:
  static Result<std::unique_ptr<LagoonSide>> Open(const DisbOptions& options) {
    std::unique_ptr<LagoonSide> side(new LagoonSide(options));
    LAGOON_ASSIGN_OR_RETURN(side->on_, OpenDevice(options.device));
    std::map<std::string, BoundModel*> loaded;
    for (const DisbClient& client : options.workload.clients) {
      auto& first = loaded[client.model];
      Result<std::unique_ptr<BoundModel>> model =
          first != nullptr
              ? first->Twin(*side->on_.device)
              : BoundModel::Load(ModelFile(options.zoo, client.model), client.model, side->on_);
      if (!model) return Annotate(client.name, std::move(model).error());
      if (first == nullptr) {
        first = model->get();
        LAGOON_RETURN_IF_ERROR(first->Profile(*side->on_.device, 5));
        LAGOON_RETURN_IF_ERROR(side->MeasureStandalone(client.model, *first));
      }
      side->models_.push_back(*std::move(model));
    }
    if (options.trace != nullptr) options.trace->Attach(*side->on_.device);
    return side;
  }

  const StandaloneTimes& standalone() const { return standalone_; }

  /// Measures one window under the scheduler `name`.
  Status Measure(const std::string& name, DisbLoad::Late late, const DisbWindow& window, Part part,
                 SystemResult& seen) {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(name));
    Dispatcher dispatcher(*on_.device, scheduler.config, std::move(scheduler.policy),
                          options_.trace);
    const auto& clients = options_.workload.clients;
    std::vector<QueueId> queues;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      QueueOptions queue;
      queue.name = clients[i].name;
      queue.job_class = clients[i].job_class;
      queue.instances = {&models_[i]->instance()};
      queue.max_pending = 100'000;  // no request is dropped: lateness shows as latency
      LAGOON_ASSIGN_OR_RETURN(queues.emplace_back(), dispatcher.AddQueue(std::move(queue)));
    }
    const UnitTimes before = on_.device->Times();
    const TimePoint from = Now();
    const bool newest = late == DisbLoad::Late::kNewest;
    std::vector<ClientRun> runs =
        Run(dispatcher, queues, window, newest, /*best_effort=*/part == kAll);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Keep(std::move(runs[i]), newest, part, seen.clients[i]);
    }
    if (part == kAlone) return {};
    const Nanoseconds idle = on_.device->Times().idle_while_ready - before.idle_while_ready;
    seen.idle_while_ready.push_back(Seconds(idle).count() /
                                    (Seconds(Now() - from).count() * on_.device->info().units));
    seen.seconds = Seconds(window.span).count();
    seen.stats = dispatcher.Stats();
    return {};
  }

 private:
  explicit LagoonSide(const DisbOptions& options) : options_(options) {}

  Status MeasureStandalone(const std::string& name, BoundModel& model) {
    std::vector<double> ns;
    for (int i = 0; i < kStandaloneRuns; ++i) {
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(model.Run(*on_.device));
      ns.push_back(static_cast<double>((Now() - begin).count()));
    }
    standalone_[name] = Nanoseconds(static_cast<std::int64_t>(Median(ns)));
    return {};
  }

  std::vector<ClientRun> Run(Dispatcher& dispatcher, const std::vector<QueueId>& queues,
                             const DisbWindow& window, bool newest, bool best_effort) {
    const auto& clients = options_.workload.clients;
    std::vector<ClientRun> runs(clients.size());
    const TimePoint begin = Now() + kSettle;
    const TimePoint end = begin + window.span;
    std::deque<ClosedLoopClient> loops;
    std::vector<std::size_t> loop_of;
    {
      std::vector<std::jthread> open;
      for (std::size_t i = 0; i < clients.size(); ++i) {
        if (!best_effort && !IsRealTime(clients[i])) continue;
        if (IsClosedLoop(clients[i])) {
          loops.emplace_back(dispatcher, queues[i], *models_[i]).Start();
          loop_of.push_back(i);
          continue;
        }
        open.emplace_back([&, i] {
          OpenLoopClient client(dispatcher, queues[i], *models_[i]);
          const std::vector<TimePoint> arrivals = From(begin, window.arrivals[i]);
          const auto samples = newest ? client.RunNewest(arrivals) : client.Run(arrivals);
          for (const Sample& sample : samples) AddRequest(sample, sample.finished < end, runs[i]);
          runs[i].dropped = arrivals.size() - samples.size();
        });
      }
      std::this_thread::sleep_until(end);
    }
    for (std::size_t j = 0; j < loops.size(); ++j) {
      const std::vector<TimePoint> completions = loops[j].Stop();
      ClientRun& run = runs[loop_of[j]];
      const std::vector<double>& latencies = loops[j].latencies_ms();
      for (std::size_t k = 0; k < completions.size(); ++k) {
        if (completions[k] >= begin && completions[k] < end) {
          run.contended_ms.push_back(latencies[k]);
        }
      }
      run.completed = Throughput(completions, begin, end) * Seconds(window.span).count();
    }
    return runs;
  }

  const DisbOptions& options_;
  // Declared before the device, so that they outlive it: its threads use the models' memory.
  std::vector<std::unique_ptr<BoundModel>> models_;  // by client
  ComputeDevice on_;
  StandaloneTimes standalone_;
};

// ---- ONNX Runtime

class OnnxRuntimeSide {
 public:
  static Result<std::unique_ptr<OnnxRuntimeSide>> Open(const DisbOptions& options, bool nice) {
    auto side = std::make_unique<OnnxRuntimeSide>(options);
    for (const DisbClient& client : options.workload.clients) {
      OnnxRuntimeOptions settings = options.onnxruntime;
      settings.spinning = false;  // sessions that spin would take the cores of the others
      settings.nice = nice && !IsRealTime(client) ? 19 : 0;
      LAGOON_ASSIGN_OR_RETURN(
          side->processes_.emplace_back(),
          OnnxRuntimeProcess::Start(ModelFile(options.zoo, client.model), settings));
    }
    return side;
  }
  explicit OnnxRuntimeSide(const DisbOptions& options) : options_(options) {}

  Result<StandaloneTimes> Standalone() {
    StandaloneTimes times;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const std::string& model = options_.workload.clients[i].model;
      if (times.contains(model)) continue;
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, processes_[i]->Run(kStandaloneRuns, 3));
      times[model] = Nanoseconds(static_cast<std::int64_t>(Median(us) * 1e3));
    }
    return times;
  }

  Status Measure(DisbLoad::Late late, const DisbWindow& window, Part part, SystemResult& seen) {
    if (part == kAll) seen.seconds = Seconds(window.span).count();
    const auto& clients = options_.workload.clients;
    const bool newest = late == DisbLoad::Late::kNewest;
    const auto takes_part = [&](std::size_t i) { return part == kAll || IsRealTime(clients[i]); };
    const TimePoint start = Now();
    const TimePoint begin = start + kSettle;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!takes_part(i)) continue;
      std::vector<double> us;
      for (const Nanoseconds at : window.arrivals[i]) us.push_back(ToMicroseconds(at));
      LAGOON_RETURN_IF_ERROR(IsClosedLoop(clients[i])
                                 ? processes_[i]->BeginLoop(start, begin + window.span)
                                 : processes_[i]->BeginOpenLoop(begin, us, newest));
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!takes_part(i)) continue;
      ClientRun run;
      if (IsClosedLoop(clients[i])) {
        LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, processes_[i]->EndLoop());
        run.completed = AddLoop(us, window.span, run.contended_ms);
      } else {
        LAGOON_ASSIGN_OR_RETURN(const auto answered, processes_[i]->EndOpenLoop());
        for (std::size_t k = 0; k < answered.ends_us.size(); ++k) {
          const Sample sample{.latency_ms = answered.latencies_us[k] / 1e3,
                              .from_arrival_ms = answered.from_arrival_us[k] / 1e3,
                              .finished = {}};
          AddRequest(sample, answered.ends_us[k] < ToMicroseconds(window.span), run);
        }
        run.dropped = window.arrivals[i].size() - answered.ends_us.size();
      }
      Keep(std::move(run), newest, part, seen.clients[i]);
    }
    return {};
  }

 private:
  // `us`: completions of a closed loop, as offsets from its start. Appends the latencies of the
  // requests that end in the window. Returns the number of completions that the window has at the
  // rate between the first and the last one there.
  static double AddLoop(const std::vector<double>& us, Nanoseconds span,
                        std::vector<double>& latencies_ms) {
    const double begin = ToMicroseconds(kSettle);
    const double end = begin + ToMicroseconds(span);
    double first = 0, last = 0;
    int count = 0;
    for (std::size_t i = 1; i < us.size(); ++i) {
      if (us[i] < begin || us[i] >= end) continue;
      latencies_ms.push_back((us[i] - us[i - 1]) / 1e3);
      if (count++ == 0) first = us[i];
      last = us[i];
    }
    return count < 2 ? 0 : (count - 1) / (last - first) * ToMicroseconds(span);
  }

  const DisbOptions& options_;
  std::vector<std::unique_ptr<OnnxRuntimeProcess>> processes_;  // by client
};

// ---- Both

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

// ---- All systems

// Targets of bench/results/tables.md.
constexpr const char* kJudged = "lagoon";
constexpr double kMostTail = 1.10, kMostIdle = 0.02;

// A scheduler, or a setting of ONNX Runtime.
struct System {
  std::string name;  // SystemName()
  bool scheduler;
  StandaloneTimes standalone;
  std::function<Status(const DisbWindow&, Part, SystemResult&)> measure;
  std::vector<DisbWindow> windows = {};  // by round; the same arrivals for every scheduler
  std::vector<SystemResult> trials = {};
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
    for (const bool nice : {false, true}) {
      if (!options_.against_onnxruntime) break;
      LAGOON_RETURN_IF_ERROR(AddOnnxRuntime(nice));
    }
    for (System& system : systems_) {
      std::mt19937 random(options_.seed);
      for (int i = 0; i < options_.windows; ++i) {
        system.windows.push_back(MakeWindow(options_, system.standalone, random));
      }
    }
    return {};
  }

  Status Run() {
    WindowsPlan plan{
        .windows = kParts, .rounds = options_.windows, .repeats = kRepeats, .seed = options_.seed};
    for (const System& system : systems_) plan.groups.push_back(system.name);
    ProgressBar progress("bench disb " + options_.workload.name,
                         static_cast<int>(systems_.size() * kParts.size()) * options_.windows);
    const auto measure = [&](const WindowPlace& place) -> Status {
      System& system = systems_[place.group];
      if (system.trials.size() <= place.trial) {
        system.trials.emplace_back(options_.workload.clients.size());
      }
      LAGOON_RETURN_IF_ERROR(system.measure(system.windows[place.round],
                                            static_cast<Part>(place.window),
                                            system.trials[place.trial]));
      progress.Step(system.name);
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    ReportStandalone(lagoon_->standalone(), report_);
    Evidence evidence(report_, options_.seed);
    for (std::size_t i = 0; i < systems_.size(); ++i) {
      Write(systems_[i], result.trials[i], result.Clean(i), evidence);
    }
    evidence.AddWindows(result.summary);
    evidence.Finish(options_.suffix);
    return {};
  }

 private:
  void AddScheduler(const std::string& name, DisbLoad::Late late) {
    systems_.push_back(
        {SystemName(name, late), true, lagoon_->standalone(),
         [this, name, late](const DisbWindow& window, Part part, SystemResult& seen) {
           return lagoon_->Measure(name, late, window, part, seen);
         }});
  }

  Status AddOnnxRuntime(bool nice) {
    LAGOON_ASSIGN_OR_RETURN(onnxruntimes_.emplace_back(), OnnxRuntimeSide::Open(options_, nice));
    OnnxRuntimeSide* const side = onnxruntimes_.back().get();
    LAGOON_ASSIGN_OR_RETURN(const StandaloneTimes standalone, side->Standalone());
    for (const DisbLoad::Late late : WaysOf(options_)) {
      systems_.push_back({SystemName(nice ? "onnxruntime-nice19" : "onnxruntime", late), false,
                          standalone,
                          [side, late](const DisbWindow& window, Part part, SystemResult& seen) {
                            return side->Measure(late, window, part, seen);
                          }});
    }
    return {};
  }

  void Write(const System& system, const std::vector<std::size_t>& trials, bool clean,
             Evidence& evidence) {
    SystemResult all(options_.workload.clients.size());
    for (const std::size_t trial : trials) all.Add(system.trials[trial]);
    const std::string name = system.name + options_.suffix;
    ReportSystem(options_, system.standalone, name, all, report_);
    WriteRatios(system, trials, clean, evidence);
    if (!system.scheduler) return;
    ReportScheduler(name, all, report_);
    const std::string idle_name = "idle_while_ready_fraction." + name;
    const Interval idle = evidence.Add(idle_name, all.idle_while_ready);
    if (system.name != kJudged) return;
    evidence.Target(idle_name, idle, Bound::kAtMost, kMostIdle, clean);
  }

  // Reports the latency of the window with all clients over that of real-time clients alone, pair
  // by pair.
  void WriteRatios(const System& system, const std::vector<std::size_t>& trials, bool clean,
                   Evidence& evidence) {
    std::vector<double> mean, median, tail;
    std::size_t least = std::numeric_limits<std::size_t>::max(), total = 0;
    for (const std::size_t trial : trials) {
      const SystemResult& seen = system.trials[trial];
      const auto count = Normalized(options_, system, seen, &ClientResult::contended_ms).size();
      least = std::min(
          {least, count, Normalized(options_, system, seen, &ClientResult::alone_ms).size()});
      total += count;
    }
    if (least == 0) return;
    const int percent = least >= kSamplesForWindowP99 && total >= kSamplesForP99 ? 99 : 90;
    for (const std::size_t trial : trials) {
      const SystemResult& seen = system.trials[trial];
      const auto all = Normalized(options_, system, seen, &ClientResult::contended_ms);
      const auto alone = Normalized(options_, system, seen, &ClientResult::alone_ms);
      mean.push_back(Mean(all) / Mean(alone));
      median.push_back(Median(all) / Median(alone));
      tail.push_back(Percentile(all, percent) / Percentile(alone, percent));
    }
    const std::string name = system.name + options_.suffix;
    evidence.Add("realtime_latency_vs_alone_mean." + name, mean);
    evidence.Add("realtime_latency_vs_alone_p50." + name, median);
    const std::string tail_name = fmt::format("realtime_latency_vs_alone_p{}.{}", percent, name);
    const Interval interval = evidence.Add(tail_name, tail);
    if (system.name == kJudged && percent == 99) {
      evidence.Target(tail_name, interval, Bound::kAtMost, kMostTail, clean);
    }
  }

  const DisbOptions& options_;
  Report& report_;
  std::unique_ptr<LagoonSide> lagoon_;
  std::vector<std::unique_ptr<OnnxRuntimeSide>> onnxruntimes_;
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
