#pragma once

#include <cstdint>
#include <vector>

#include "cluster/placement/latency_table.h"
#include "cluster/placement/placer.h"
#include "sim/placement/baseline_rows.h"

namespace lagoon {

/// GSLICE (Dhakal et al., SoCC 2020), as InSS 6.1 compares with it. GSLICE shares one GPU; here
/// each model, the largest knee first, goes to the GPU with the least sum of knees, and stays
/// there. On each GPU the shares follow GSLICE's rules (TuneShare, MaxMin) every ten decisions,
/// what no model needs is handed out too, and batches keep half the SLO, all without interference.
class GslicePlacer final : public Placer {
 public:
  /// `busy`: what part of its capacity a replica may be asked for, above 0, at most 1.
  explicit GslicePlacer(double busy = kBaselineBusy) : busy_(busy) {}
  std::string_view name() const override { return "gslice"; }
  Assignment Place(const PlacementView& view) override;

 private:
  const double busy_;
  void PlaceNew(const PlacementView& view, Assignment& assignment);
  void Tune(const PlacementView& view, Assignment& assignment);

  LatencyTables tables_;
  std::uint64_t decisions_ = 0;
};

}  // namespace lagoon
