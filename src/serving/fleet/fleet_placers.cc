#include "serving/fleet/fleet_placers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace lagoon {
namespace {

/// What is placed on the GPUs so far.
class Places {
 public:
  explicit Places(const PlacementView& view) : view_(view), gpus_(view.gpus.size()) {}

  struct Gpu {
    double demand = 0;
    std::int64_t memory = 0;
    std::uint32_t replicas = 0;
  };
  const Gpu& gpu(std::size_t index) const { return gpus_[index]; }

  bool Fits(std::size_t model, std::size_t gpu) const {
    const Gpu& on = gpus_[gpu];
    return on.replicas < view_.gpus[gpu].granules &&
           on.memory + view_.models[model].memory_bytes <= view_.gpus[gpu].memory_bytes;
  }
  void Add(std::size_t model, std::size_t gpu, double fraction, double demand) {
    gpus_[gpu].demand += demand;
    gpus_[gpu].memory += view_.models[model].memory_bytes;
    ++gpus_[gpu].replicas;
    assignment_.replicas.push_back({model, gpu, 1, 1, fraction});
    demands_.push_back(demand);
  }
  void Refuse(std::size_t model) {
    assignment_.refused.push_back(
        {model, fmt::format("no GPU has room for its {} bytes", view_.models[model].memory_bytes)});
  }

  /// Gives each replica a granule, and divides the rest in proportion to the demands.
  Assignment Finish() {
    for (std::size_t i = 0; i < assignment_.replicas.size(); ++i) {
      PlacedReplica& replica = assignment_.replicas[i];
      const Gpu& on = gpus_[replica.gpu];
      const double part = on.demand > 0 ? demands_[i] / on.demand : 1.0 / on.replicas;
      const double rest = view_.gpus[replica.gpu].granules - on.replicas;
      replica.granules += static_cast<std::uint32_t>(std::floor(part * rest));
    }
    SortReplicas(assignment_);
    return std::move(assignment_);
  }

 private:
  const PlacementView& view_;
  std::vector<Gpu> gpus_;
  Assignment assignment_;
  std::vector<double> demands_;  // by replica
};

/// Part of a whole GPU that the model's rows need.
double DemandOf(const ModelView& model) {
  return model.rate * model.latency->AloneMs(1, 1.0) / 1e3;
}

std::vector<bool> GpusOf(const PlacementView& view, std::size_t model) {
  std::vector<bool> has(view.gpus.size());
  for (const PlacedReplica& replica : view.current.replicas) {
    if (replica.model == model && replica.gpu < has.size()) has[replica.gpu] = true;
  }
  return has;
}

}  // namespace

Assignment StaticPlacer::Place(const PlacementView& view) {
  Places places(view);
  for (const PlacedReplica& replica : view.current.replicas) {
    const double demand = replica.fraction * DemandOf(view.models[replica.model]);
    places.Add(replica.model, replica.gpu, replica.fraction, demand);
  }
  for (std::size_t model = 0; model < view.models.size(); ++model) {
    const std::vector<bool> has = GpusOf(view, model);
    if (std::ranges::find(has, true) != has.end()) continue;
    std::optional<std::size_t> best;
    for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
      if (!places.Fits(model, gpu)) continue;
      if (!best || places.gpu(gpu).replicas < places.gpu(*best).replicas) best = gpu;
    }
    if (best) {
      places.Add(model, *best, 1, DemandOf(view.models[model]));
    } else {
      places.Refuse(model);
    }
  }
  return places.Finish();
}

Assignment LeastLoadedPlacer::Place(const PlacementView& view) {
  std::vector<double> demands;
  for (const ModelView& model : view.models) demands.push_back(DemandOf(model));
  std::vector<std::size_t> order(demands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t model) { return demands[model]; });
  Places places(view);
  for (const std::size_t model : order) {
    const double demand = demands[model];
    const std::vector<bool> has = GpusOf(view, model);
    std::vector<std::size_t> gpus;  // with room, best first
    for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
      if (places.Fits(model, gpu)) gpus.push_back(gpu);
    }
    std::ranges::stable_sort(
        gpus, {}, [&](std::size_t gpu) { return places.gpu(gpu).demand - (has[gpu] ? kStay : 0); });
    if (gpus.empty()) {
      places.Refuse(model);
      continue;
    }
    const double wanted = std::max(1.0, std::ceil(demand / kMostOfOne));
    const auto count = static_cast<std::size_t>(std::min(wanted, static_cast<double>(gpus.size())));
    const double fraction = 1.0 / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
      places.Add(model, gpus[i], fraction, demand * fraction);
    }
  }
  return places.Finish();
}

}  // namespace lagoon
