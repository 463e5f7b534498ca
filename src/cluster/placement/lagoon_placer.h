#pragma once

#include <vector>

#include "cluster/placement/fleet_plan.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// Local search on the forecast of rows that will be late or dropped (PlanGpu, ViolationRate), with
/// the interference that the latency models predict.
/// - It starts from the present places, so that replicas stay where they are without a reason to
///   move. Models without a place come first: the largest need goes where it costs least.
/// - A model that needs more than 80 % of a GPU gets more replicas.
/// - Then the GPU that costs most gives a replica to another GPU or exchanges it, as long as that
///   saves more than a move costs: the model's arrivals of 10 ms.
class LagoonPlacer final : public Placer {
 public:
  std::string_view name() const override { return "lagoon"; }
  Assignment Place(const PlacementView& view) override;

 private:
  void SetReplicas(const PlacementView& view, FleetPlan& plan) const;
  void KeepPlaces(const PlacementView& view, FleetPlan& plan) const;
  void PlaceRest(const PlacementView& view, FleetPlan& plan) const;
  void Search(const PlacementView& view, FleetPlan& plan) const;
  bool ImproveGpu(const PlacementView& view, FleetPlan& plan, std::size_t gpu) const;

  LatencyTables tables_;
};

}  // namespace lagoon
