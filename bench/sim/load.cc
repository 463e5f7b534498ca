#include "bench/sim/load.h"

namespace lagoon::bench {

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

}  // namespace lagoon::bench
