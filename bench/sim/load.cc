#include "bench/sim/load.h"

namespace lagoon::bench {
namespace {

class SimLoad {
 public:
  explicit SimLoad(const SimRandomLoadOptions& options) : options_(options) {}

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(const auto found,
                            FindKernels(options_.kernels, options_.gpu, options_.models));
    for (const std::string& name : options_.models) {
      const SimModel& model = found.at(name);
      LAGOON_ASSIGN_OR_RETURN(standalone_[name],
                              SimStandalone({.gpu = options_.gpu, .seed = options_.seed}, model));
      models_.push_back(model);
      clients_.push_back({name, name, JobClass::kBestEffort, {}});
      clients_.back().load.kind = DisbLoad::Kind::kTrace;  // the windows say when
    }
    return {};
  }

  const StandaloneTimes& standalone() const { return standalone_; }

  Result<SystemResult> Measure(const std::string& system, const DisbWindow& window,
                               bool watched) const {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(system));
    std::vector<SimStageQueue> queues;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      queues.push_back({clients_[i].name, JobClass::kBestEffort, &models_[i], options_.instances});
    }
    SystemResult seen(models_.size());
    {
      const SimAbort abort = AbortOf(scheduler.config);
      LAGOON_ASSIGN_OR_RETURN(
          SimStage stage,
          SimStage::Open({.gpu = options_.gpu, .abort = abort, .seed = options_.seed},
                         std::move(scheduler), queues,
                         watched ? options_.watch.HooksOf(system) : SimStageHooks()));
      std::vector<VirtualRun> runs = stage.Run(clients_, window, Nanoseconds(0));
      for (std::size_t i = 0; i < runs.size(); ++i) {
        seen.clients[i].contended_ms = std::move(runs[i].latencies_ms);
        seen.clients[i].completed = runs[i].completed;
      }
    }
    seen.seconds = std::chrono::duration<double>(window.span).count();
    if (watched) LAGOON_RETURN_IF_ERROR(options_.watch.end());
    return seen;
  }

 private:
  const SimRandomLoadOptions& options_;
  std::vector<SimModel> models_;
  std::vector<DisbClient> clients_;  // by model
  StandaloneTimes standalone_;
};

}  // namespace

Result<LoadMix> LoadMix::Open(const std::string& gpu,
                              const std::vector<std::pair<std::string, double>>& models) {
  LoadMix mix;
  LAGOON_ASSIGN_OR_RETURN(mix.gpu, LoadGpuModel(gpu));
  for (const auto& [model, share] : models) {
    LAGOON_ASSIGN_OR_RETURN(mix.models.emplace_back(), MakeSimModel(gpu, model));
    mix.shares.push_back(share);
  }
  return mix;
}

Result<LoadResult> RunLoad(const LoadMix& mix, const LoadShape& shape, double per_second,
                           Scheduler scheduler) {
  std::vector<SimStageQueue> queues;
  std::vector<DisbClient> clients;
  for (const SimModel& model : mix.models) {
    const std::string name(model.statistics.model);
    queues.push_back({name, JobClass::kBestEffort, &model, mix.instances});
    clients.push_back({name, name, JobClass::kBestEffort, {}});
    clients.back().load.kind = DisbLoad::Kind::kTrace;
  }
  const DisbWindow window = MakeLoadWindow(mix.shares, shape, per_second);
  LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                          SimStage::Open({.gpu = mix.gpu}, std::move(scheduler), queues));
  const TimePoint start = stage.device().Now();
  std::vector<VirtualRun> runs = stage.Run(clients, window, Nanoseconds(0));
  LoadResult result;
  result.offered = per_second;
  result.per_second =
      shape.jobs / std::chrono::duration<double>(stage.device().Now() - start).count();
  for (VirtualRun& run : runs) {
    result.latencies_ms.insert(result.latencies_ms.end(), run.latencies_ms.begin(),
                               run.latencies_ms.end());
    result.by_model.push_back(std::move(run.latencies_ms));
  }
  return result;
}

Status RunRandomLoadOnSim(const SimRandomLoadOptions& options, Report& report) {
  SimLoad side(options);
  LAGOON_RETURN_IF_ERROR(side.Open());
  Evidence evidence(report, options.seed);  // not finished: in virtual time no host disturbs
  LoadRun run(options, side.standalone(), report, evidence);
  const std::size_t steps =
      options.sigmas.size() * options.loads.size() * options.schedulers.size();
  ProgressBar progress("bench load", static_cast<int>(steps) * options.windows);
  return run.Run(options.schedulers, [&](const LoadPlace& place) -> Result<LoadRun::Trials> {
    LoadRun::Trials trials;
    for (const std::string& system : place.systems) {
      std::vector<SystemResult>& of = trials.emplace_back();
      for (int i = 0; i < options.windows; ++i) {
        const auto round = static_cast<std::size_t>(i);
        const bool watched = options.watch.wanted() && place.first && round == 0;
        LAGOON_ASSIGN_OR_RETURN(SystemResult seen,
                                side.Measure(system, run.WindowOf(place, round), watched));
        of.push_back(std::move(seen));
        progress.Step(system);
      }
    }
    return trials;
  });
}

}  // namespace lagoon::bench
