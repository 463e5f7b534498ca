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
/// BaselineOptions::paper says what is otherwise with parts.
class GslicePlacer final : public Placer {
 public:
  explicit GslicePlacer(const BaselineOptions& options = {}) : options_(options) {}
  std::string_view name() const override { return "gslice"; }
  Assignment Place(const PlacementView& view) override;

 private:
  const BaselineOptions options_;
  void PlaceNew(const PlacementView& view, Assignment& assignment);
  void Tune(const PlacementView& view, Assignment& assignment);
  double DemandOf(const ModelView& model, const PlacedReplica& replica, std::uint32_t granules);
  std::vector<std::uint32_t> Divide(const std::vector<double>& demands,
                                    std::uint32_t granules) const;

  LatencyTables tables_;
  std::uint64_t decisions_ = 0;
};

}  // namespace lagoon
