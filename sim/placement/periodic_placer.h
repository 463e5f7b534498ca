#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "cluster/placement/placer.h"

namespace lagoon {

/// Asks a placer anew only every ten decisions, and whenever models or GPUs come or go; keeps what
/// it said in between. For placers that start from nothing at each decision: with rates that are
/// measured they would move replicas all the time. (Gpulet's authors decide every 20 s.) GPUs of a
/// new assignment are renamed so that most stays (Relabel).
class PeriodicPlacer final : public Placer {
 public:
  explicit PeriodicPlacer(std::unique_ptr<Placer> placer) : placer_(std::move(placer)) {}

  std::string_view name() const override { return placer_->name(); }
  Assignment Place(const PlacementView& view) override;

 private:
  const std::unique_ptr<Placer> placer_;
  std::uint64_t decisions_ = 0;
  Assignment last_;
  PlacementView seen_;  // of the last time that the placer was asked
};

}  // namespace lagoon
