#pragma once

// Placers that know nothing of how models disturb each other: to begin with, and to compare with.

#include <string_view>

#include "cluster/placement/placer.h"

namespace lagoon {

/// "static": every replica stays where it is. A model without one gets one on the GPU with the
/// fewest replicas that has room.
class StaticPlacer final : public Placer {
 public:
  std::string_view name() const override { return "static"; }
  bool DecidesShares() const override { return false; }
  Assignment Place(const PlacementView& view) override;
};

/// "least-loaded": the models in descending demand, which is rate times the time of a row on the
/// whole GPU. Each goes to the GPU with the least demand so far, or stays on its GPU if that has at
/// most kStay more. A model whose demand is above kMostOfOne gets as many replicas, on different
/// GPUs, as bring it below. Granules are in proportion to demands.
class LeastLoadedPlacer final : public Placer {
 public:
  static constexpr double kStay = 0.1;
  static constexpr double kMostOfOne = 0.7;

  std::string_view name() const override { return "least-loaded"; }
  bool DecidesShares() const override { return false; }
  Assignment Place(const PlacementView& view) override;
};

}  // namespace lagoon
