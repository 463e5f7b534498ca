#include "bench/sim/disb_sim.h"

#include <map>
#include <memory>

#include "bench/measure/statistics.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Nanoseconds kSettle = std::chrono::milliseconds(100);  // run before a window begins
constexpr Nanoseconds kStandaloneSpan = std::chrono::seconds(1);

class SimSide {
 public:
  static Result<std::unique_ptr<SimSide>> Open(const SimDisbOptions& options) {
    std::unique_ptr<SimSide> side(new SimSide(options));
    for (const DisbClient& client : options.workload.clients) {
      if (side->models_.contains(client.model)) continue;
      Result<SimModel> model = MakeSimModel(options.gpu.name, client.model);
      if (!model) return Annotate(client.name, std::move(model).error());
      side->models_.emplace(client.model, *std::move(model));
      LAGOON_RETURN_IF_ERROR(side->MeasureStandalone(client.model));
    }
    return side;
  }

  const StandaloneTimes& standalone() const { return standalone_; }

  // Measures one window under a scheduler: with real-time clients alone, then with all clients.
  Status Turn(const std::string& scheduler, DisbLoad::Late late, const DisbWindow& window,
              SystemResult& seen) {
    const std::vector<DisbClient> clients = ClientsOf(options_, late);
    LAGOON_ASSIGN_OR_RETURN(SimStage quiet, Prepare(scheduler, clients, /*best_effort=*/false));
    const std::vector<VirtualRun> alone = quiet.Run(clients, window, kSettle);
    LAGOON_ASSIGN_OR_RETURN(SimStage stage, Prepare(scheduler, clients, /*best_effort=*/true));
    const std::vector<VirtualRun> contended = stage.Run(clients, window, kSettle);
    seen.idle_while_ready.push_back(stage.IdleWhileReady());
    seen.units_busy.push_back(stage.UnitsBusy());
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const VirtualRun& run = contended[i];
      seen.clients[i].Add({.alone_ms = alone[i].latencies_ms,
                           .contended_ms = run.latencies_ms,
                           .from_arrival_ms = run.from_arrival_ms,
                           .completed = run.completed,
                           .dropped = run.dropped});
    }
    seen.seconds += Seconds(window.span).count();
    const DispatcherStats stats = stage.dispatcher().Stats();
    seen.stats.revocations += stats.revocations;
    seen.stats.padded_launches += stats.padded_launches;
    return {};
  }

 private:
  explicit SimSide(const SimDisbOptions& options) : options_(options) {}

  Result<SimStage> Prepare(const std::string& name, const std::vector<DisbClient>& clients,
                           bool best_effort) const {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(name));
    std::vector<SimStageQueue> queues;
    for (const DisbClient& client : clients) {
      const bool takes_part = best_effort || IsRealTime(client);
      queues.push_back(
          {client.name, client.job_class, takes_part ? &models_.at(client.model) : nullptr});
    }
    const SimAbort abort = AbortOf(scheduler.config);
    return SimStage::Open({.gpu = options_.gpu, .abort = abort, .seed = options_.seed},
                          std::move(scheduler), queues);
  }

  // One request after the other; all kernels of a request are submitted at once.
  Status MeasureStandalone(const std::string& model) {
    const std::vector<DisbClient> client{{model, model, JobClass::kRealTime, {}}};
    LAGOON_ASSIGN_OR_RETURN(SimStage stage, Prepare("sequential", client, true));
    const std::vector<VirtualRun> runs = stage.Run(client, {kStandaloneSpan, {{}}}, kSettle);
    standalone_[model] =
        Nanoseconds(static_cast<std::int64_t>(Mean(runs.front().latencies_ms) * 1e6));
    return {};
  }

  const SimDisbOptions& options_;
  std::map<std::string, SimModel> models_;
  StandaloneTimes standalone_;
};

}  // namespace

Status RunDisbOnSim(const SimDisbOptions& options, Report& report) {
  struct System {
    std::string scheduler;
    DisbLoad::Late late;
    SystemResult seen;
  };
  std::vector<System> systems;
  for (const DisbLoad::Late late : WaysOf(options)) {
    for (const std::string& scheduler : options.schedulers) {
      systems.push_back({scheduler, late, SystemResult(options.workload.clients.size())});
    }
  }
  ProgressBar progress("bench disb " + options.workload.name,
                       static_cast<int>(systems.size()) * options.windows);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<SimSide> side, SimSide::Open(options));
  std::mt19937 random(options.seed);
  for (int i = 0; i < options.windows; ++i) {
    const DisbWindow window = MakeWindow(options, side->standalone(), random);
    for (System& system : systems) {
      LAGOON_RETURN_IF_ERROR(side->Turn(system.scheduler, system.late, window, system.seen));
      progress.Step(SystemName(system.scheduler, system.late));
    }
  }
  ReportStandalone(side->standalone(), report);
  for (const System& system : systems) {
    const std::string name = SystemName(system.scheduler, system.late) + options.suffix;
    ReportSystem(options, side->standalone(), name, system.seen, report);
    ReportScheduler(name, system.seen, report);
  }
  return {};
}

}  // namespace lagoon::bench
