#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/placement/placer.h"

namespace lagoon {

/// Groups of GPUs that decide on their own, each with models of its own (InSS 5.2, the second way
/// of scaling). GPUs are grouped as they come; a last group may be smaller. Models are dealt when
/// models or GPUs come or go. The model with the largest demand is dealt first, and each goes to
/// the group whose models have the smallest demand per GPU so far. Demand is the rate times the
/// time of a row in a batch of eight on a whole GPU. A model that its group cannot hold is refused.
class GroupedPlacer final : public Placer {
 public:
  using Make = std::function<std::unique_ptr<Placer>()>;
  /// `gpus`: of a group, 1 or more. `make` makes the placer of each group.
  GroupedPlacer(std::size_t gpus, Make make);

  std::string_view name() const override { return placers_.front()->name(); }
  bool DecidesShares() const override { return placers_.front()->DecidesShares(); }
  Assignment Place(const PlacementView& view) override;

 private:
  void Deal(const PlacementView& view);

  const std::size_t gpus_;
  const Make make_;
  std::vector<std::unique_ptr<Placer>> placers_;  // by group; at least one
  std::vector<std::string> names_;                // of the models and GPUs that were dealt
  std::vector<std::size_t> group_of_;             // by model
};

}  // namespace lagoon
