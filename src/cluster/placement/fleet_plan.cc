#include "cluster/placement/fleet_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lagoon {

FleetPlan::FleetPlan(const PlacementView& view, LatencyTables& tables)
    : view_(view),
      tables_(view.models.size()),
      counts_(view.models.size(), 1),
      demands_(view.models.size()),
      gpus_(view.gpus.size()) {
  std::vector<std::uint32_t> granules;  // of the kinds of GPUs
  for (const GpuView& gpu : view.gpus) {
    auto found = std::ranges::find(granules, gpu.granules);
    if (found == granules.end()) found = granules.insert(found, gpu.granules);
    kinds_.push_back(static_cast<std::size_t>(found - granules.begin()));
  }
  for (std::size_t i = 0; i < view.models.size(); ++i) {
    for (const std::uint32_t count : granules) {
      tables_[i].push_back(&tables.Of(*view.models[i].latency, count, view.models[i].most_rows));
    }
    demands_[i].resize(granules.size());
    rows_per_gpu_ += view.models[i].rate / static_cast<double>(view.gpus.size());
  }
}

void FleetPlan::SetReplicas(std::size_t model, std::size_t count) {
  counts_[model] = count;
  for (GpuDemand& demand : demands_[model]) demand.table = nullptr;
}

bool FleetPlan::Holds(std::size_t gpu, std::size_t model) const {
  return std::ranges::find(gpus_[gpu].models, model) != gpus_[gpu].models.end();
}

const GpuDemand& FleetPlan::DemandOf(std::size_t model, std::size_t gpu) {
  GpuDemand& demand = demands_[model][kinds_[gpu]];
  if (demand.table != nullptr) return demand;
  const ModelView& view = view_.models[model];
  demand = WithTimes({.table = tables_[model][kinds_[gpu]],
                      .rate = view.rate / static_cast<double>(counts_[model]),
                      .slo_ms = view.SloMs()});
  return demand;
}

double FleetPlan::NeedAlone(std::size_t model, std::size_t gpu) {
  const GpuDemand* demand = &DemandOf(model, gpu);
  return PlanGpu({&demand, 1}, view_.gpus[gpu].granules).needed;
}

bool FleetPlan::Fits(std::size_t gpu, const std::vector<std::size_t>& models) const {
  if (models.size() > view_.gpus[gpu].granules) return false;
  std::int64_t memory = 0;
  for (const std::size_t model : models) {
    memory += MemoryOf(view_.models[model], view_.models[model].most_rows);
  }
  return memory <= view_.gpus[gpu].memory_bytes;
}

GpuPlan FleetPlan::PlanOf(std::size_t gpu, const std::vector<std::size_t>& models) {
  ++evaluations_;
  std::vector<const GpuDemand*> demands;
  for (const std::size_t model : models) demands.push_back(&DemandOf(model, gpu));
  return PlanGpu(demands, view_.gpus[gpu].granules);
}

double FleetPlan::CostOf(const GpuPlan& plan) const {
  constexpr double kOfLoad = 1e-3;
  return plan.lost + kOfLoad * rows_per_gpu_ * plan.needed * plan.needed;
}

double FleetPlan::CostWith(std::size_t gpu, const std::vector<std::size_t>& models) {
  return CostOf(PlanOf(gpu, models));
}

void FleetPlan::Put(std::size_t gpu, std::vector<std::size_t> models) {
  LAGOON_CHECK(Fits(gpu, models));
  gpus_[gpu].plan = PlanOf(gpu, models);
  gpus_[gpu].cost = CostOf(gpus_[gpu].plan);
  gpus_[gpu].models = std::move(models);
}

Assignment FleetPlan::ToAssignment() const {
  Assignment assignment;
  std::vector<std::size_t> placed(view_.models.size());
  for (const Gpu& gpu : gpus_) {
    for (const std::size_t model : gpu.models) ++placed[model];
  }
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    const Gpu& on = gpus_[gpu];
    for (std::size_t i = 0; i < on.models.size(); ++i) {
      const std::size_t model = on.models[i];
      const GpuShare& share = on.plan.shares[i];
      assignment.replicas.push_back({.model = model,
                                     .gpu = gpu,
                                     .granules = share.granules,
                                     .rows = tables_[model][kinds_[gpu]]->rows(share.size),
                                     .fraction = 1 / static_cast<double>(placed[model])});
    }
  }
  for (std::size_t model = 0; model < placed.size(); ++model) {
    if (placed[model] > 0) continue;
    assignment.refused.push_back(
        {model, fmt::format("no GPU has {} bytes of memory and a granule for model {}",
                            MemoryOf(view_.models[model], view_.models[model].most_rows),
                            Quoted(view_.models[model].name))});
  }
  SortReplicas(assignment);
  return assignment;
}

}  // namespace lagoon
