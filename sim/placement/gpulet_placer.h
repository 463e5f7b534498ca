#pragma once

#include "cluster/placement/latency_table.h"
#include "cluster/placement/placer.h"
#include "sim/placement/baseline_rows.h"

namespace lagoon {

/// Gpulet (Choi et al., USENIX ATC 2022), as InSS 6.1 compares with it: a GPU is cut in at most two
/// parts (20/80, 40/60, 50/50 or whole), each of which serves one model. Models in ascending order
/// of rate times SLO get the smallest free part that is at least the smaller of their knee and of
/// what keeps up with the rate, and that meets the SLO with 10 % more for interference. A model
/// that finds no such part gets the largest free part; without a free part it is refused.
///
/// The published code does more (it merges and splits parts later); this is its elastic
/// partitioning.
class GpuletPlacer final : public Placer {
 public:
  /// `busy`: what part of its capacity a replica may be asked for, above 0, at most 1.
  explicit GpuletPlacer(double busy = kBaselineBusy) : busy_(busy) {}
  std::string_view name() const override { return "gpulet"; }
  Assignment Place(const PlacementView& view) override;

 private:
  const double busy_;
  LatencyTables tables_;
};

}  // namespace lagoon
