#pragma once

#include <vector>

#include "cluster/placement/latency_table.h"
#include "cluster/placement/placer.h"
#include "sim/placement/baseline_rows.h"

namespace lagoon {

/// iGniter (Xu et al., TPDS 2022), as InSS 6.1 compares with it. Each model gets the fewest
/// granules that keep up with its rate within half of its SLO, the largest first, on the GPU where
/// interference asks for the fewest more granules: 2.5 % for each model that would be too slow,
/// until none is. A new GPU is used only if that fails, so few GPUs are used. A model for which no
/// GPU has room gets what is left of the emptiest one.
///
/// iGniter's own formula of the latency is replaced by the latency model that all placers get.
class IgniterPlacer final : public Placer {
 public:
  /// `busy`: what part of its capacity a replica may be asked for, above 0, at most 1.
  explicit IgniterPlacer(double busy = kBaselineBusy) : busy_(busy) {}
  std::string_view name() const override { return "igniter"; }
  Assignment Place(const PlacementView& view) override;

 private:
  const double busy_;
  LatencyTables tables_;
};

}  // namespace lagoon
