#pragma once

// Which replicas are on which GPU, and what each GPU makes of them: the state of a local search.

#include <cstddef>
#include <vector>

#include "cluster/placement/gpu_plan.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// Not thread-safe. `view` and `tables` outlive the plan.
class FleetPlan {
 public:
  FleetPlan(const PlacementView& view, LatencyTables& tables);

  /// Splits the model's arrivals evenly over so many replicas, none of which may be placed yet.
  void SetReplicas(std::size_t model, std::size_t count);
  std::size_t replicas(std::size_t model) const { return counts_[model]; }
  const std::vector<std::size_t>& models_on(std::size_t gpu) const { return gpus_[gpu].models; }
  bool Holds(std::size_t gpu, std::size_t model) const;
  const GpuPlan& plan(std::size_t gpu) const { return gpus_[gpu].plan; }
  /// Rows per second that are late or dropped, and a little for each GPU that is nearly full, so
  /// that loads become even.
  double cost(std::size_t gpu) const { return gpus_[gpu].cost; }
  /// What part of a whole GPU a replica of the model needs alone; above 1: one is not enough.
  double NeedAlone(std::size_t model, std::size_t gpu);

  /// Whether the GPU has the memory and a granule for the models.
  bool Fits(std::size_t gpu, const std::vector<std::size_t>& models) const;
  /// cost() with these models. They fit.
  double CostWith(std::size_t gpu, const std::vector<std::size_t>& models);
  /// They fit.
  void Put(std::size_t gpu, std::vector<std::size_t> models);
  /// Calls of CostWith() and Put() so far.
  std::size_t evaluations() const { return evaluations_; }

  /// Models without a replica are refused.
  Assignment ToAssignment() const;

 private:
  struct Gpu {
    std::vector<std::size_t> models;
    GpuPlan plan;
    double cost = 0;
  };
  const GpuDemand& DemandOf(std::size_t model, std::size_t gpu);
  GpuPlan PlanOf(std::size_t gpu, const std::vector<std::size_t>& models);
  double CostOf(const GpuPlan& plan) const;

  const PlacementView& view_;
  std::vector<std::vector<const LatencyTable*>> tables_;  // [model][kind of GPU]
  std::vector<std::size_t> kinds_;                        // by GPU
  std::vector<std::size_t> counts_;                       // replicas, by model
  std::vector<std::vector<GpuDemand>> demands_;           // [model][kind], made when needed
  std::vector<Gpu> gpus_;
  double rows_per_gpu_ = 0;  // arrivals of all models / GPUs
  std::size_t evaluations_ = 0;
};

}  // namespace lagoon
