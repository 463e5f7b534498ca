#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cluster/placement/placer.h"

namespace lagoon::testing {

/// Models whose times are t = alone_ms / share for each batch and 1/8 of that for each row, and
/// GPUs, for tests of placers.
class TestFleet {
 public:
  explicit TestFleet(std::size_t gpus, std::uint32_t granules = 50) {
    view.gpus.assign(gpus, {.granules = granules, .memory_bytes = 40'000'000'000});
  }

  /// `ms`: of one row on the whole GPU. `dram`: slowdown of others by this model's full load, and
  /// of this one by others.
  ModelView& Add(double ms, double rate, double slo_ms, double dram = 0.1) {
    auto surface =
        Surface::FromFormula({.base_ms = ms * 7 / 8, .row_ms = ms / 8, .fixed = 0.1, .knee = 0.8});
    LAGOON_CHECK(surface.has_value());
    const double most = 1e3 * 32 / surface->LatencyMs(32, 1);
    models_.push_back(std::make_unique<LatencyModel>(
        *std::move(surface), LoadLine{0, 0}, LoadLine{0, 1 / most}, SlowdownTerms{0, 0, dram}));
    ModelView& model = view.models.emplace_back();
    model.name = "model" + std::to_string(view.models.size() - 1);
    model.slo = Nanoseconds(static_cast<std::int64_t>(slo_ms * 1e6));
    model.rate = rate;
    model.latency = models_.back().get();
    model.memory_bytes = 1'000'000'000;
    return model;
  }

  PlacementView view;

 private:
  std::vector<std::unique_ptr<LatencyModel>> models_;
};

}  // namespace lagoon::testing
