#pragma once

#include <cstdint>
#include <vector>

#include "cluster/placement/model_table.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// GSLICE (Dhakal et al., SoCC 2020), as InSS 6.1 compares with it: each model goes to the first
/// GPU that has room for its knee, the largest knee first, and stays there; what does not fit goes
/// to the GPU with the least demand. On each GPU the shares follow GSLICE's rules (TuneShare,
/// MaxMin) every ten decisions, and batches keep half the SLO, all without interference.
class GslicePlacer final : public Placer {
 public:
  std::string_view name() const override { return "gslice"; }
  Assignment Place(const PlacementView& view) override;

 private:
  void PlaceNew(const PlacementView& view, Assignment& assignment);
  void Tune(const PlacementView& view, Assignment& assignment);

  ModelTables tables_;
  std::uint64_t decisions_ = 0;
};

}  // namespace lagoon
