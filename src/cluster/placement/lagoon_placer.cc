#include "cluster/placement/lagoon_placer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace lagoon {
namespace {

// Plans of GPUs that a decision may compute: a bound on its time (about 2 us each) that does not
// depend on the machine.
constexpr std::size_t kMostEvaluations = 1500;

// The part of a GPU that a replica may need; above it, the model gets another replica.
constexpr double kFullReplica = 0.8;
// A replica that moves costs the arrivals of so many seconds.
constexpr double kMoveSeconds = 0.01;
// The part of a GPU's arrivals that may be lost without a reason to search.
constexpr double kWell = 0.001;

std::vector<std::size_t> Without(std::vector<std::size_t> models, std::size_t model) {
  std::erase(models, model);
  return models;
}

std::vector<std::size_t> With(std::vector<std::size_t> models, std::size_t model) {
  models.push_back(model);
  return models;
}

// Rows per second that arrive at a GPU.
double RateOf(const PlacementView& view, const FleetPlan& plan, std::size_t gpu) {
  double rate = 0;
  for (const std::size_t model : plan.models_on(gpu)) {
    rate += view.models[model].rate / static_cast<double>(plan.replicas(model));
  }
  return rate;
}

std::size_t ReplicasOf(const Assignment& assignment, std::size_t model) {
  return static_cast<std::size_t>(
      std::ranges::count(assignment.replicas, model, &PlacedReplica::model));
}

}  // namespace

// As many replicas as the need says; one more than needed stays, so that their number does not
// swing.
void LagoonPlacer::SetReplicas(const PlacementView& view, FleetPlan& plan) const {
  for (std::size_t model = 0; model < view.models.size(); ++model) {
    const auto enough = [&](std::size_t count, double part) {
      plan.SetReplicas(model, count);
      return plan.NeedAlone(model, 0) <= part;
    };
    const std::size_t most = view.gpus.size(), now = ReplicasOf(view.current, model);
    std::size_t count = std::max<std::size_t>(1, std::min(most, now));
    while (count < most && !enough(count, kFullReplica)) ++count;
    while (count > 1 && count >= now && enough(count - 1, kFullReplica * 0.8)) --count;
    plan.SetReplicas(model, count);
  }
}

void LagoonPlacer::KeepPlaces(const PlacementView& view, FleetPlan& plan) const {
  std::vector<std::vector<std::size_t>> kept(view.gpus.size());
  std::vector<std::size_t> placed(view.models.size());
  for (const PlacedReplica& replica : view.current.replicas) {
    if (replica.model >= view.models.size() || replica.gpu >= view.gpus.size()) continue;
    if (placed[replica.model] >= plan.replicas(replica.model)) continue;
    if (std::ranges::count(kept[replica.gpu], replica.model) > 0) continue;
    std::vector<std::size_t> with = With(kept[replica.gpu], replica.model);
    if (!plan.Fits(replica.gpu, with)) continue;
    kept[replica.gpu] = std::move(with);
    ++placed[replica.model];
  }
  for (std::size_t gpu = 0; gpu < kept.size(); ++gpu) {
    if (!kept[gpu].empty()) plan.Put(gpu, std::move(kept[gpu]));
  }
}

void LagoonPlacer::PlaceRest(const PlacementView& view, FleetPlan& plan) const {
  std::vector<std::pair<double, std::size_t>> rest;  // need and model, a pair for each replica
  for (std::size_t model = 0; model < view.models.size(); ++model) {
    std::size_t placed = 0;
    for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) placed += plan.Holds(gpu, model);
    for (; placed < plan.replicas(model); ++placed) {
      rest.emplace_back(plan.NeedAlone(model, 0), model);
    }
  }
  std::ranges::stable_sort(rest, std::greater<>(), &std::pair<double, std::size_t>::first);
  for (const auto& [need, model] : rest) {
    double best = std::numeric_limits<double>::infinity();
    std::size_t place = view.gpus.size();
    for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
      const std::vector<std::size_t> with = With(plan.models_on(gpu), model);
      if (plan.Holds(gpu, model) || !plan.Fits(gpu, with)) continue;
      const double more = plan.CostWith(gpu, with) - plan.cost(gpu);
      if (more >= best) continue;
      best = more;
      place = gpu;
    }
    if (place < view.gpus.size()) plan.Put(place, With(plan.models_on(place), model));
  }
}

// The best move or exchange of a replica of `gpu`. False: none saves enough.
bool LagoonPlacer::ImproveGpu(const PlacementView& view, FleetPlan& plan, std::size_t gpu) const {
  struct Change {
    double saved = 0;
    std::size_t other = 0;
    std::vector<std::size_t> here, there;
  };
  Change best;
  const auto try_change = [&](std::size_t other, std::vector<std::size_t> here,
                              std::vector<std::size_t> there, double move_cost) {
    if (plan.evaluations() >= kMostEvaluations) return;
    if (!plan.Fits(other, there) || !plan.Fits(gpu, here)) return;
    const double before = plan.cost(gpu) + plan.cost(other) - move_cost;
    const double one = plan.CostWith(other, there);
    if (before - one <= best.saved) return;
    const double saved = before - one - plan.CostWith(gpu, here);
    if (saved > best.saved) best = {saved, other, std::move(here), std::move(there)};
  };
  const auto move_cost = [&](std::size_t model) {
    // A place that does not exist yet costs nothing to change.
    if (view.current.replicas.empty()) return 1e-9;
    return kMoveSeconds * view.models[model].rate / static_cast<double>(plan.replicas(model));
  };
  for (const std::size_t model : plan.models_on(gpu)) {
    const std::vector<std::size_t> rest = Without(plan.models_on(gpu), model);
    for (std::size_t other = 0; other < view.gpus.size(); ++other) {
      if (other == gpu || plan.Holds(other, model)) continue;
      const std::vector<std::size_t>& there = plan.models_on(other);
      try_change(other, rest, With(there, model), move_cost(model));
      for (const std::size_t back : there) {
        if (plan.Holds(gpu, back)) continue;
        try_change(other, With(rest, back), With(Without(there, back), model),
                   move_cost(model) + move_cost(back));
      }
    }
  }
  if (best.saved <= 0) return false;
  plan.Put(gpu, std::move(best.here));
  plan.Put(best.other, std::move(best.there));
  return true;
}

void LagoonPlacer::Search(const PlacementView& view, FleetPlan& plan) const {
  // In a fleet that serves, a GPU on which all is well has no reason to give a replica away.
  std::vector<bool> well(view.gpus.size());
  for (std::size_t gpu = 0; gpu < well.size() && !view.current.replicas.empty(); ++gpu) {
    well[gpu] = plan.plan(gpu).lost <= kWell * RateOf(view, plan, gpu);
  }
  std::vector<bool> done = well;
  while (plan.evaluations() < kMostEvaluations) {
    std::size_t worst = view.gpus.size();
    for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
      if (done[gpu]) continue;
      if (worst == view.gpus.size() || plan.cost(gpu) > plan.cost(worst)) worst = gpu;
    }
    if (worst == view.gpus.size()) return;
    if (ImproveGpu(view, plan, worst)) {
      done = well;
    } else {
      done[worst] = true;
    }
  }
}

Assignment LagoonPlacer::Place(const PlacementView& view) {
  tables_.Begin();
  FleetPlan plan(view, tables_);
  SetReplicas(view, plan);
  KeepPlaces(view, plan);
  PlaceRest(view, plan);
  Search(view, plan);
  return plan.ToAssignment();
}

}  // namespace lagoon
