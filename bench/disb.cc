#include "bench/disb.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <thread>

#include "bench/clients.h"
#include "bench/statistics.h"
#include "device/cpu/cpu_device.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Nanoseconds kSettle = std::chrono::milliseconds(250);  // before a window counts
constexpr int kStandaloneRuns = 30;
constexpr std::size_t kSamplesForP999 = 10'000;

bool IsRealTime(const DisbClient& client) { return client.job_class == JobClass::kRealTime; }

/// What one system showed of one client, over its windows.
struct ClientResult {
  std::vector<double> alone_ms, contended_ms;
  double completed = 0;  // within the contended windows
};

struct SystemResult {
  std::vector<ClientResult> clients;
  double seconds = 0;  // of all contended windows
  std::vector<double> idle_while_ready;
  DispatcherStats stats;

  explicit SystemResult(std::size_t count) : clients(count) {}
};

/// One window's length, and when each client sends.
struct Window {
  Nanoseconds span{0};
  std::vector<std::vector<Nanoseconds>> arrivals;  // by client; empty: closed loop
};

using StandaloneTimes = std::map<std::string, Nanoseconds>;  // by model

// Long enough for the wanted number of real-time requests.
Nanoseconds SpanOf(const DisbOptions& options, const StandaloneTimes& standalone) {
  double per_second = 0;
  for (const DisbClient& client : options.workload.clients) {
    if (!IsRealTime(client)) continue;
    const Nanoseconds alone = standalone.at(client.model);
    const double rate = RateOf(client.load, alone);
    per_second += rate > 0 ? rate : 1 / Seconds(alone).count();
  }
  const double seconds =
      per_second > 0 ? std::min(options.seconds, options.requests / per_second) : options.seconds;
  return std::chrono::duration_cast<Nanoseconds>(Seconds(seconds / options.windows));
}

Window MakeWindow(const DisbOptions& options, const StandaloneTimes& standalone,
                  std::mt19937& random) {
  Window window;
  window.span = SpanOf(options, standalone);
  for (const DisbClient& client : options.workload.clients) {
    window.arrivals.emplace_back();
    if (client.load.kind == DisbLoad::Kind::kContinuous) continue;
    window.arrivals.back() =
        Arrivals(client.load, standalone.at(client.model), window.span, random);
  }
  return window;
}

std::vector<TimePoint> From(TimePoint begin, std::span<const Nanoseconds> offsets) {
  std::vector<TimePoint> times;
  for (const Nanoseconds offset : offsets) times.push_back(begin + offset);
  return times;
}

/// Latencies and the ends of the requests that count: those of [begin, end) where the loop is
/// closed.
struct ClientRun {
  std::vector<double> latencies_ms;
  double completed = 0;
};

// ---- Lagoon

class LagoonSide {
 public:
  static Result<std::unique_ptr<LagoonSide>> Open(const DisbOptions& options) {
    std::unique_ptr<LagoonSide> side(new LagoonSide(options));
    LAGOON_ASSIGN_OR_RETURN(side->device_, CreateCpuDevice({.workers = options.workers}));
    std::map<std::string, BoundModel*> loaded;
    for (const DisbClient& client : options.workload.clients) {
      auto& first = loaded[client.model];
      Result<std::unique_ptr<BoundModel>> model =
          first != nullptr ? first->Twin(*side->device_)
                           : BoundModel::Load(ModelFile(options.zoo, client.model), client.model,
                                              *side->device_);
      if (!model) return Annotate(client.name, std::move(model).error());
      if (first == nullptr) {
        first = model->get();
        LAGOON_RETURN_IF_ERROR(first->Profile(*side->device_, 5));
        LAGOON_RETURN_IF_ERROR(side->MeasureStandalone(client.model, *first));
      }
      side->models_.push_back(*std::move(model));
    }
    if (options.trace != nullptr) options.trace->Attach(*side->device_);
    return side;
  }

  const StandaloneTimes& standalone() const { return standalone_; }

  Status Turn(const std::string& name, const Window& window, SystemResult& seen) {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(name));
    Dispatcher dispatcher(*device_, scheduler.config, std::move(scheduler.policy), options_.trace);
    const auto& clients = options_.workload.clients;
    std::vector<QueueId> queues;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      QueueOptions queue;
      queue.name = clients[i].name;
      queue.job_class = clients[i].job_class;
      queue.instances = {&models_[i]->instance()};
      queue.max_pending = 100'000;  // nothing is dropped: lateness shows as latency
      LAGOON_ASSIGN_OR_RETURN(queues.emplace_back(), dispatcher.AddQueue(std::move(queue)));
    }
    const std::vector<ClientRun> alone = Run(dispatcher, queues, window, /*best_effort=*/false);
    const UnitTimes before = device_->Times();
    const TimePoint from = Now();
    const std::vector<ClientRun> contended = Run(dispatcher, queues, window, /*best_effort=*/true);
    const Nanoseconds idle = device_->Times().idle_while_ready - before.idle_while_ready;
    seen.idle_while_ready.push_back(Seconds(idle).count() /
                                    (Seconds(Now() - from).count() * device_->info().units));
    for (std::size_t i = 0; i < clients.size(); ++i) {
      Append(alone[i].latencies_ms, seen.clients[i].alone_ms);
      Append(contended[i].latencies_ms, seen.clients[i].contended_ms);
      seen.clients[i].completed += contended[i].completed;
    }
    seen.seconds += Seconds(window.span).count();
    const DispatcherStats stats = dispatcher.Stats();
    seen.stats.revocations += stats.revocations;
    seen.stats.padded_launches += stats.padded_launches;
    return {};
  }

 private:
  explicit LagoonSide(const DisbOptions& options) : options_(options) {}

  static void Append(const std::vector<double>& from, std::vector<double>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Status MeasureStandalone(const std::string& name, BoundModel& model) {
    std::vector<double> ns;
    for (int i = 0; i < kStandaloneRuns; ++i) {
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(model.Run(*device_));
      ns.push_back(static_cast<double>((Now() - begin).count()));
    }
    standalone_[name] = Nanoseconds(static_cast<std::int64_t>(Median(ns)));
    return {};
  }

  std::vector<ClientRun> Run(Dispatcher& dispatcher, const std::vector<QueueId>& queues,
                             const Window& window, bool best_effort) {
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
        if (clients[i].load.kind == DisbLoad::Kind::kContinuous) {
          loops.emplace_back(dispatcher, queues[i], *models_[i]).Start();
          loop_of.push_back(i);
          continue;
        }
        open.emplace_back([&, i] {
          OpenLoopClient client(dispatcher, queues[i], *models_[i]);
          for (const Sample& sample : client.Run(From(begin, window.arrivals[i]))) {
            runs[i].latencies_ms.push_back(sample.latency_ms);
          }
          runs[i].completed = static_cast<double>(runs[i].latencies_ms.size());
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
          run.latencies_ms.push_back(latencies[k]);
        }
      }
      run.completed = Throughput(completions, begin, end) * Seconds(window.span).count();
    }
    return runs;
  }

  const DisbOptions& options_;
  // The device goes first: its threads use the models' memory.
  std::vector<std::unique_ptr<BoundModel>> models_;  // by client
  std::unique_ptr<Device> device_;
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

  Status Turn(const Window& window, SystemResult& seen) {
    LAGOON_RETURN_IF_ERROR(Run(window, /*best_effort=*/false, seen));
    LAGOON_RETURN_IF_ERROR(Run(window, /*best_effort=*/true, seen));
    seen.seconds += Seconds(window.span).count();
    return {};
  }

 private:
  Status Run(const Window& window, bool best_effort, SystemResult& seen) {
    const auto& clients = options_.workload.clients;
    const TimePoint start = Now();
    const TimePoint begin = start + kSettle;
    const auto runs = [&](std::size_t i) { return best_effort || IsRealTime(clients[i]); };
    const auto is_loop = [&](std::size_t i) {
      return clients[i].load.kind == DisbLoad::Kind::kContinuous;
    };
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!runs(i)) continue;
      std::vector<double> us;
      for (const Nanoseconds at : window.arrivals[i]) us.push_back(ToMicroseconds(at));
      LAGOON_RETURN_IF_ERROR(is_loop(i) ? processes_[i]->BeginLoop(start, begin + window.span)
                                        : processes_[i]->BeginOpenLoop(begin, us));
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!runs(i)) continue;
      ClientResult& result = seen.clients[i];
      std::vector<double>& latencies = best_effort ? result.contended_ms : result.alone_ms;
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us,
                              is_loop(i) ? processes_[i]->EndLoop() : processes_[i]->EndOpenLoop());
      const double completed =
          is_loop(i) ? AddLoop(us, window.span, latencies) : AddOpenLoop(us, latencies);
      if (best_effort) result.completed += completed;
    }
    return {};
  }

  static double AddOpenLoop(const std::vector<double>& us, std::vector<double>& latencies_ms) {
    for (const double latency : us) latencies_ms.push_back(latency / 1e3);
    return static_cast<double>(us.size());
  }

  // Completions as offsets from the loop's start.
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

// ---- Report

class SystemReport {
 public:
  SystemReport(const DisbOptions& options, const StandaloneTimes& standalone, Report& report)
      : clients_(options.workload.clients), standalone_(standalone), report_(report) {}

  void Add(const std::string& system, const SystemResult& seen) {
    std::vector<double> normalized, alone;
    double best_effort = 0, all = 0;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const ClientResult& client = seen.clients[i];
      const double standalone_ms = ToMilliseconds(standalone_.at(clients_[i].model));
      const double share = client.completed / seen.seconds * standalone_ms / 1e3;
      all += share;
      const std::string label = system + "." + clients_[i].name;
      report_.Metric("per_second." + label, client.completed / seen.seconds);
      if (!client.contended_ms.empty()) {
        report_.Metric("latency_ms_mean." + label, Mean(client.contended_ms));
        report_.Metric("latency_ms_p50." + label, Median(client.contended_ms));
      }
      if (!IsRealTime(clients_[i])) {
        best_effort += share;
        continue;
      }
      for (const double ms : client.contended_ms) normalized.push_back(ms / standalone_ms);
      for (const double ms : client.alone_ms) alone.push_back(ms / standalone_ms);
    }
    report_.Metric("throughput_normalized." + system, all);
    report_.Metric("best_effort_throughput_normalized." + system, best_effort);
    report_.Metric("realtime_requests." + system, static_cast<double>(normalized.size()));
    if (!normalized.empty() && !alone.empty()) AddLatency(system, normalized, alone);
  }

 private:
  void AddLatency(const std::string& system, const std::vector<double>& normalized,
                  const std::vector<double>& alone) {
    report_.Metric("realtime_latency_normalized_mean." + system, Mean(normalized));
    const bool enough = std::min(normalized.size(), alone.size()) >= kSamplesForP99;
    for (const int percent : {50, enough ? 99 : 90}) {
      const double value = Percentile(normalized, percent);
      report_.Metric(fmt::format("realtime_latency_normalized_p{}.{}", percent, system), value);
      report_.Metric(fmt::format("realtime_latency_vs_alone_p{}.{}", percent, system),
                     value / Percentile(alone, percent));
    }
    if (normalized.size() >= kSamplesForP999) {
      report_.Metric("realtime_latency_normalized_p99.9." + system, Percentile(normalized, 99.9));
    }
  }

  const std::vector<DisbClient>& clients_;
  const StandaloneTimes& standalone_;
  Report& report_;
};

Status RunLagoon(const DisbOptions& options, Progress& progress, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<LagoonSide> side, LagoonSide::Open(options));
  std::vector<SystemResult> seen(options.schedulers.size(),
                                 SystemResult(options.workload.clients.size()));
  std::mt19937 random(options.seed);
  for (int i = 0; i < options.windows; ++i) {
    const Window window = MakeWindow(options, side->standalone(), random);
    for (std::size_t j = 0; j < seen.size(); ++j) {
      LAGOON_RETURN_IF_ERROR(side->Turn(options.schedulers[j], window, seen[j]));
      progress.Step(options.schedulers[j]);
    }
  }
  for (const auto& [model, standalone] : side->standalone()) {
    report.Metric("standalone_ms." + model, ToMilliseconds(standalone));
  }
  SystemReport systems(options, side->standalone(), report);
  for (std::size_t j = 0; j < seen.size(); ++j) {
    const std::string& name = options.schedulers[j];
    systems.Add(name, seen[j]);
    report.Metric("idle_while_ready_fraction." + name, Median(seen[j].idle_while_ready));
    report.Metric("revocations." + name, static_cast<double>(seen[j].stats.revocations));
    report.Metric("padded_launches." + name, static_cast<double>(seen[j].stats.padded_launches));
  }
  return {};
}

Status RunOnnxRuntime(const DisbOptions& options, Progress& progress, Report& report) {
  for (const bool nice : {false, true}) {
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxRuntimeSide> side,
                            OnnxRuntimeSide::Open(options, nice));
    LAGOON_ASSIGN_OR_RETURN(const StandaloneTimes standalone, side->Standalone());
    const std::string name = nice ? "onnxruntime-nice19" : "onnxruntime";
    SystemResult seen(options.workload.clients.size());
    std::mt19937 random(options.seed);
    for (int i = 0; i < options.windows; ++i) {
      LAGOON_RETURN_IF_ERROR(side->Turn(MakeWindow(options, standalone, random), seen));
      progress.Step(name);
    }
    SystemReport(options, standalone, report).Add(name, seen);
  }
  return {};
}

}  // namespace

Status RunDisb(const DisbOptions& options, Report& report) {
  const std::size_t systems = options.schedulers.size() + (options.against_onnxruntime ? 2 : 0);
  Progress progress("bench disb " + options.workload.name,
                    static_cast<int>(systems) * options.windows);
  LAGOON_RETURN_IF_ERROR(RunLagoon(options, progress, report));
  if (!options.against_onnxruntime) return {};
  return RunOnnxRuntime(options, progress, report);
}

}  // namespace lagoon::bench
