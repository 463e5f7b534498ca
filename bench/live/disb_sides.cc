#include "bench/live/disb_sides.h"

#include <deque>
#include <map>
#include <span>
#include <thread>

#include "bench/measure/statistics.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Nanoseconds kSettle = std::chrono::milliseconds(250);  // run before a window begins
constexpr int kStandaloneRuns = 30;

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
void Keep(ClientRun run, bool newest, DisbPart part, ClientResult& result) {
  if (!newest) run.from_arrival_ms.clear();
  if (part == kAlone) {
    result.alone_ms = std::move(run.contended_ms);
    return;
  }
  run.alone_ms = std::move(result.alone_ms);
  result = std::move(run);
}

// `us`: completions of a closed loop, as offsets from its start. Appends the latencies of the
// requests that end in the window. Returns the number of completions that the window has at the
// rate between the first and the last one there.
double AddLoop(const std::vector<double>& us, Nanoseconds span, std::vector<double>& latencies_ms) {
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

}  // namespace

Result<std::unique_ptr<LagoonSide>> LagoonSide::Open(const DisbOptions& options) {
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

Status LagoonSide::Measure(const std::string& scheduler, DisbLoad::Late late,
                           const DisbWindow& window, DisbPart part, SystemResult& seen) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
  Dispatcher dispatcher(*on_.device, made.config, std::move(made.policy), options_.trace);
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

Status LagoonSide::MeasureStandalone(const std::string& name, BoundModel& model) {
  std::vector<double> ns;
  for (int i = 0; i < kStandaloneRuns; ++i) {
    const TimePoint begin = Now();
    LAGOON_RETURN_IF_ERROR(model.Run(*on_.device));
    ns.push_back(static_cast<double>((Now() - begin).count()));
  }
  standalone_[name] = Nanoseconds(static_cast<std::int64_t>(Median(ns)));
  return {};
}

std::vector<ClientResult> LagoonSide::Run(Dispatcher& dispatcher,
                                          const std::vector<QueueId>& queues,
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

// ---- ONNX Runtime

Result<std::unique_ptr<OnnxRuntimeSide>> OnnxRuntimeSide::Open(const DisbOptions& options,
                                                               const std::string& setting) {
  std::unique_ptr<OnnxRuntimeSide> side(new OnnxRuntimeSide(options));
  LAGOON_ASSIGN_OR_RETURN(side->processes_, OnnxRuntimeBeside::Open(setting));
  for (const DisbClient& client : options.workload.clients) {
    LAGOON_RETURN_IF_ERROR(side->processes_->Add(ModelFile(options.zoo, client.model),
                                                 IsRealTime(client), options.onnxruntime));
  }
  LAGOON_RETURN_IF_ERROR(side->MeasureStandalone());
  return side;
}

Status OnnxRuntimeSide::MeasureStandalone() {
  for (std::size_t i = 0; i < processes_->size(); ++i) {
    const std::string& model = options_.workload.clients[i].model;
    if (standalone_.contains(model)) continue;
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, (*processes_)[i].Run(kStandaloneRuns, 3));
    standalone_[model] = Nanoseconds(static_cast<std::int64_t>(Median(us) * 1e3));
  }
  return {};
}

Status OnnxRuntimeSide::Measure(DisbLoad::Late late, const DisbWindow& window, DisbPart part,
                                SystemResult& seen) {
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
                               ? (*processes_)[i].BeginLoop(start, begin + window.span)
                               : (*processes_)[i].BeginOpenLoop(begin, us, newest));
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (!takes_part(i)) continue;
    LAGOON_ASSIGN_OR_RETURN(ClientRun run, End(i, window));
    Keep(std::move(run), newest, part, seen.clients[i]);
  }
  return {};
}

Result<ClientResult> OnnxRuntimeSide::End(std::size_t client, const DisbWindow& window) {
  ClientRun run;
  ComparatorProcess& process = (*processes_)[client];
  if (IsClosedLoop(options_.workload.clients[client])) {
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, process.EndLoop());
    run.completed = AddLoop(us, window.span, run.contended_ms);
    return run;
  }
  LAGOON_ASSIGN_OR_RETURN(const auto answered, process.EndOpenLoop());
  for (std::size_t k = 0; k < answered.ends_us.size(); ++k) {
    const Sample sample{.latency_ms = answered.latencies_us[k] / 1e3,
                        .from_arrival_ms = answered.from_arrival_us[k] / 1e3,
                        .finished = {}};
    AddRequest(sample, answered.ends_us[k] < ToMicroseconds(window.span), run);
  }
  run.dropped = window.arrivals[client].size() - answered.ends_us.size();
  return run;
}

}  // namespace lagoon::bench
