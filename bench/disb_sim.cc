#include "bench/disb_sim.h"

#include <map>
#include <memory>
#include <optional>

#include "bench/sim_plan.h"
#include "bench/statistics.h"
#include "bench/virtual_clients.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Nanoseconds kSettle = std::chrono::milliseconds(100);  // before a window counts
constexpr Nanoseconds kStandaloneSpan = std::chrono::seconds(1);
constexpr std::size_t kMaxPending = 1'000'000;  // nothing is dropped: lateness shows as latency

/// A device of its own with some clients' models, so that no run leaves anything behind.
struct SimStage {
  std::unique_ptr<SimDevice> device;
  std::vector<std::unique_ptr<Instance>> instances;
  std::unique_ptr<Dispatcher> dispatcher;
  std::vector<std::optional<QueueId>> queues;  // by client
};

class SimSide final : public DisbSide {
 public:
  static Result<std::unique_ptr<SimSide>> Open(const SimDisbOptions& options) {
    std::unique_ptr<SimSide> side(new SimSide(options));
    for (const DisbClient& client : options.workload.clients) {
      if (side->models_.contains(client.model)) continue;
      Result<SimModel> model = MakeSimModel(options.profile.name, client.model);
      if (!model) return Annotate(client.name, std::move(model).error());
      side->models_.emplace(client.model, *std::move(model));
      LAGOON_RETURN_IF_ERROR(side->MeasureStandalone(client.model));
    }
    return side;
  }

  const StandaloneTimes& standalone() const override { return standalone_; }

  Status Turn(const std::string& scheduler, const DisbWindow& window, SystemResult& seen) override {
    const std::vector<DisbClient>& clients = options_.workload.clients;
    LAGOON_ASSIGN_OR_RETURN(SimStage quiet, Prepare(scheduler, clients, /*best_effort=*/false));
    const std::vector<VirtualRun> alone = Run(quiet, clients, window);
    LAGOON_ASSIGN_OR_RETURN(SimStage stage, Prepare(scheduler, clients, /*best_effort=*/true));
    const TimePoint from = stage.device->Now();
    const std::vector<VirtualRun> contended = Run(stage, clients, window);
    const UnitTimes times = stage.device->Times();
    const double unit_seconds =
        Seconds(stage.device->Now() - from).count() * stage.device->info().units;
    seen.idle_while_ready.push_back(Seconds(times.idle_while_ready).count() / unit_seconds);
    seen.units_busy.push_back(Seconds(times.busy).count() / unit_seconds);
    for (std::size_t i = 0; i < clients.size(); ++i) {
      seen.clients[i].Add(alone[i].latencies_ms, contended[i].latencies_ms, contended[i].completed);
    }
    seen.seconds += Seconds(window.span).count();
    const DispatcherStats stats = stage.dispatcher->Stats();
    seen.stats.revocations += stats.revocations;
    seen.stats.padded_launches += stats.padded_launches;
    return {};
  }

 private:
  explicit SimSide(const SimDisbOptions& options) : options_(options) {}

  Result<SimStage> Prepare(const std::string& name, const std::vector<DisbClient>& clients,
                           bool best_effort) const {
    SimStage stage;
    LAGOON_ASSIGN_OR_RETURN(
        stage.device, SimDevice::Create({.profile = options_.profile, .seed = options_.seed}));
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(name));
    stage.dispatcher =
        std::make_unique<Dispatcher>(*stage.device, scheduler.config, std::move(scheduler.policy));
    std::map<std::string, std::shared_ptr<const LoadedPlan>> plans;
    for (const DisbClient& client : clients) {
      stage.queues.emplace_back();
      if (!best_effort && !IsRealTime(client)) continue;
      std::shared_ptr<const LoadedPlan>& plan = plans[client.model];
      if (plan == nullptr) {
        LAGOON_ASSIGN_OR_RETURN(plan, LoadSimPlan(models_.at(client.model), *stage.device));
      }
      LAGOON_ASSIGN_OR_RETURN(stage.instances.emplace_back(),
                              Instance::Create(plan, *stage.device));
      QueueOptions queue;
      queue.name = client.name;
      queue.job_class = client.job_class;
      queue.instances = {stage.instances.back().get()};
      queue.max_pending = kMaxPending;
      LAGOON_ASSIGN_OR_RETURN(stage.queues.back(), stage.dispatcher->AddQueue(std::move(queue)));
    }
    return stage;
  }

  static std::vector<VirtualRun> Run(SimStage& stage, const std::vector<DisbClient>& clients,
                                     const DisbWindow& window) {
    VirtualClients run(*stage.device, *stage.dispatcher, clients, stage.queues);
    return run.Run(window, kSettle);
  }

  // One request after the other, each submitted whole.
  Status MeasureStandalone(const std::string& model) {
    const std::vector<DisbClient> client{{model, model, JobClass::kRealTime, {}}};
    LAGOON_ASSIGN_OR_RETURN(SimStage stage, Prepare("sequential", client, true));
    const std::vector<VirtualRun> runs = Run(stage, client, {kStandaloneSpan, {{}}});
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
  Progress progress("bench disb " + options.workload.name,
                    static_cast<int>(options.schedulers.size()) * options.windows);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<SimSide> side, SimSide::Open(options));
  return RunSchedulers(options, *side, progress, report);
}

}  // namespace lagoon::bench
