#pragma once

#include <vector>

#include "cluster/placement/latency_table.h"
#include "cluster/placement/placer.h"
#include "sim/placement/baseline_rows.h"

namespace lagoon {

/// Usher (Shubha et al., OSDI 2024), in short: a model asks for the share and rows at which a
/// granule does the most rows per second within half the SLO, and for more if that does not keep
/// up with 80 % of its capacity; a model that would ask for more than a GPU is split into replicas.
/// Replicas, the largest first, go to the GPU with room where the predicted interference (the
/// slowdowns of all on it) is least, so that models that load the memory stand beside models that
/// do not. What is left of a GPU is handed out in proportion. Without room: the GPU with the most.
class UsherPlacer final : public Placer {
 public:
  /// `busy`: what part of its capacity a replica may be asked for, above 0, at most 1.
  explicit UsherPlacer(double busy = kBaselineBusy) : busy_(busy) {}
  std::string_view name() const override { return "usher"; }
  Assignment Place(const PlacementView& view) override;

 private:
  const double busy_;
  LatencyTables tables_;
};

}  // namespace lagoon
