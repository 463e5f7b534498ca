#include "bench/sim/disb_sim.h"

#include <map>
#include <memory>

#include "bench/measure/statistics.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Nanoseconds kSettle = std::chrono::milliseconds(100);  // run before a window begins

// A scheduler with clients of one kind.
struct System {
  std::string scheduler;
  DisbLoad::Late late;
  std::string name;  // in metrics
  SystemResult seen;
  bool watched = false;
};

class SimSide {
 public:
  static Result<std::unique_ptr<SimSide>> Open(const SimDisbOptions& options) {
    std::unique_ptr<SimSide> side(new SimSide(options));
    std::vector<std::string> names;
    for (const DisbClient& client : options.workload.clients) names.push_back(client.model);
    LAGOON_ASSIGN_OR_RETURN(side->models_, FindKernels(options.kernels, options.gpu, names));
    for (const std::string& name : names) {
      if (side->standalone_.contains(name)) continue;
      LAGOON_ASSIGN_OR_RETURN(
          side->standalone_[name],
          SimStandalone({.gpu = options.gpu, .seed = options.seed}, side->models_.at(name)));
    }
    return side;
  }

  const StandaloneTimes& standalone() const { return standalone_; }

  // Measures one window of a system: with real-time clients alone, then with all clients.
  Status Turn(System& system, const DisbWindow& window) {
    const std::vector<DisbClient> clients = ClientsOf(options_, system.late);
    LAGOON_ASSIGN_OR_RETURN(SimStage quiet,
                            Prepare(system.scheduler, clients, Clients::kRealTimeOnly));
    const std::vector<VirtualRun> alone = quiet.Run(clients, window, kSettle);
    SimStageHooks hooks;
    if (options_.watch.wanted() && !system.watched) hooks = options_.watch.HooksOf(system.name);
    LAGOON_RETURN_IF_ERROR(RunAll(system, clients, window, alone, hooks));
    if (!hooks.watch) return {};
    system.watched = true;
    return options_.watch.end();
  }

 private:
  enum class Clients : std::uint8_t { kRealTimeOnly, kAll };

  explicit SimSide(const SimDisbOptions& options) : options_(options) {}

  Status RunAll(System& system, const std::vector<DisbClient>& clients, const DisbWindow& window,
                const std::vector<VirtualRun>& alone, const SimStageHooks& hooks) {
    LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                            Prepare(system.scheduler, clients, Clients::kAll, hooks));
    const std::vector<VirtualRun> contended = stage.Run(clients, window, kSettle);
    SystemResult& seen = system.seen;
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

  Result<SimStage> Prepare(const std::string& name, const std::vector<DisbClient>& clients,
                           Clients which, const SimStageHooks& hooks = {}) const {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(name));
    std::vector<SimStageQueue> queues;
    for (const DisbClient& client : clients) {
      const bool takes_part = which == Clients::kAll || IsRealTime(client);
      queues.push_back(
          {client.name, client.job_class, takes_part ? &models_.at(client.model) : nullptr});
    }
    const SimAbort abort = AbortOf(scheduler.config);
    return SimStage::Open({.gpu = options_.gpu, .abort = abort, .seed = options_.seed},
                          std::move(scheduler), queues, hooks);
  }

  const SimDisbOptions& options_;
  std::map<std::string, SimModel> models_;
  StandaloneTimes standalone_;
};

}  // namespace

Status RunDisbOnSim(const SimDisbOptions& options, Report& report) {
  std::vector<System> systems;
  for (const DisbLoad::Late late : WaysOf(options)) {
    for (const std::string& scheduler : options.schedulers) {
      systems.push_back({scheduler, late, SystemName(scheduler, late) + options.suffix,
                         SystemResult(options.workload.clients.size())});
    }
  }
  ProgressBar progress("bench disb " + options.workload.name,
                       static_cast<int>(systems.size()) * options.windows);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<SimSide> side, SimSide::Open(options));
  std::mt19937 random(options.seed);
  for (int i = 0; i < options.windows; ++i) {
    const DisbWindow window = MakeWindow(options, side->standalone(), random);
    for (System& system : systems) {
      LAGOON_RETURN_IF_ERROR(side->Turn(system, window));
      progress.Step(SystemName(system.scheduler, system.late));
    }
  }
  ReportStandalone(side->standalone(), report);
  for (const System& system : systems) {
    ReportSystem(options, side->standalone(), system.name, system.seen, report);
    ReportScheduler(options, system.name, system.seen, report);
  }
  return {};
}

}  // namespace lagoon::bench
