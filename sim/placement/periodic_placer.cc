#include "sim/placement/periodic_placer.h"

#include <algorithm>

#include "sim/placement/relabel.h"

namespace lagoon {
namespace {

constexpr std::uint64_t kDecisionsBetween = 10;

bool SameFleet(const PlacementView& a, const PlacementView& b) {
  const auto same_model = [](const ModelView& x, const ModelView& y) {
    // Not what is measured, which changes at each decision.
    return x.name == y.name && x.slo == y.slo && x.latency == y.latency &&
           x.memory_bytes == y.memory_bytes && x.row_bytes == y.row_bytes &&
           x.most_rows == y.most_rows;
  };
  const auto same_gpu = [](const GpuView& x, const GpuView& y) {
    return x.name == y.name && x.granules == y.granules && x.memory_bytes == y.memory_bytes;
  };
  return std::ranges::equal(a.models, b.models, same_model) &&
         std::ranges::equal(a.gpus, b.gpus, same_gpu);
}

}  // namespace

Assignment PeriodicPlacer::Place(const PlacementView& view) {
  if (decisions_++ % kDecisionsBetween == 0 || !SameFleet(view, seen_)) {
    last_ = Relabel(view, placer_->Place(view));
    seen_ = view;
    decisions_ = 1;
  }
  return last_;
}

}  // namespace lagoon
