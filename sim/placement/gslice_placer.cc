#include "sim/placement/gslice_placer.h"

#include <algorithm>

#include "base/check.h"
#include "cluster/knee.h"
#include "cluster/shares.h"

namespace lagoon {
namespace {

constexpr std::uint64_t kDecisionsBetween = 10;
constexpr std::uint32_t kMostParts = 5;  // of a GPU, with kPaperParts

double KneeShare(const ModelView& model, std::uint32_t granules) {
  return static_cast<double>(Knee(model.latency->alone(), 1, granules)) / granules;
}

}  // namespace

// Keeps what is placed. New models get their knee, or what is left of it.
void GslicePlacer::PlaceNew(const PlacementView& view, Assignment& assignment) {
  std::vector<double> demand(view.gpus.size());
  std::vector<std::int64_t> memory(view.gpus.size());
  std::vector<bool> placed(view.models.size());
  const auto put = [&](std::size_t model, std::size_t gpu, std::uint32_t granules) {
    assignment.replicas.push_back({model, gpu, granules, 1, 1});
    demand[gpu] += KneeShare(view.models[model], view.gpus[gpu].granules);
    memory[gpu] += MemoryOf(view.models[model], view.models[model].most_rows);
    placed[model] = true;
  };
  for (const PlacedReplica& replica : view.current.replicas) {
    if (replica.model < placed.size() && !placed[replica.model]) {
      put(replica.model, replica.gpu, replica.granules);
    }
  }
  std::vector<double> knees;
  for (const ModelView& model : view.models) knees.push_back(KneeShare(model, 100));
  const auto order = OrderOf(knees, true);
  for (const std::size_t model : order) {
    if (placed[model]) continue;
    const ModelView& seen = view.models[model];
    std::size_t best = view.gpus.size();
    for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
      const auto count = std::ranges::count(assignment.replicas, gpu, &PlacedReplica::gpu);
      const bool holds =
          memory[gpu] + MemoryOf(seen, seen.most_rows) <= view.gpus[gpu].memory_bytes &&
          count <
              static_cast<std::ptrdiff_t>(options_.paper ? kMostParts : view.gpus[gpu].granules);
      if (!holds) continue;
      if (best == view.gpus.size() || demand[gpu] < demand[best]) best = gpu;
    }
    if (best == view.gpus.size()) {
      Refuse(view, model, "no GPU has the memory or a part left", assignment);
    } else {
      put(model, best, 0);  // a share follows
    }
  }
}

double GslicePlacer::DemandOf(const ModelView& model, const PlacedReplica& replica,
                              std::uint32_t granules) {
  if (replica.granules == 0) return KneeShare(model, granules);
  const LatencyTable& table = tables_.Of(*model.latency, granules, model.most_rows);
  const double share = static_cast<double>(replica.granules) / granules;
  const double budget_ms = model.SloMs() / 2;
  const std::int64_t rows = MostRows(table, replica.granules, budget_ms);
  const double ms = model.latency->AloneMs(rows, share);
  const bool measured = options_.paper && model.measured_ms > 0;
  const auto tuned = TuneShare({.share = share,
                                .latency_ms = measured ? model.measured_ms : ms,
                                .slo_ms = measured ? ToMilliseconds(model.slo) / 2 : budget_ms,
                                .rows_per_s = static_cast<double>(rows) / ms * 1e3,
                                .arrivals_per_s = model.rate / options_.busy},
                               1.0 / granules);
  LAGOON_CHECK(tuned.has_value());
  return *tuned;
}

// The granules of each model on a GPU.
std::vector<std::uint32_t> GslicePlacer::Divide(const std::vector<double>& demands,
                                                std::uint32_t granules) const {
  const MaxMinRules::Surplus surplus =
      options_.paper ? MaxMinRules::Surplus::kNone : MaxMinRules::Surplus::kProportional;
  const auto shares = MaxMin(demands, 1, {.surplus = surplus});
  LAGOON_CHECK(shares.has_value());
  if (options_.paper) {
    std::vector<std::uint32_t> whole;
    for (const double part : ToParts(*shares)) whole.push_back(GranulesOfPart(part, granules));
    return whole;
  }
  std::vector<double> exact;
  for (const double share : *shares) exact.push_back(share * granules);
  auto whole = ToGranules(exact, granules);
  LAGOON_CHECK(whole.has_value());
  return *std::move(whole);
}

void GslicePlacer::Tune(const PlacementView& view, Assignment& assignment) {
  for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
    const std::uint32_t granules = view.gpus[gpu].granules;
    std::vector<PlacedReplica*> on;
    std::vector<double> demands;
    for (PlacedReplica& replica : assignment.replicas) {
      if (replica.gpu != gpu) continue;
      on.push_back(&replica);
      demands.push_back(DemandOf(view.models[replica.model], replica, granules));
    }
    if (on.empty()) continue;
    const std::vector<std::uint32_t> whole = Divide(demands, granules);
    for (std::size_t i = 0; i < on.size(); ++i) on[i]->granules = whole[i];
  }
}

Assignment GslicePlacer::Place(const PlacementView& view) {
  Assignment assignment;
  PlaceNew(view, assignment);
  const bool unshared = std::ranges::count(assignment.replicas, 0U, &PlacedReplica::granules) > 0;
  if (decisions_++ % kDecisionsBetween == 0 || unshared) Tune(view, assignment);
  for (PlacedReplica& replica : assignment.replicas) {
    const ModelView& model = view.models[replica.model];
    const LatencyTable& table =
        tables_.Of(*model.latency, view.gpus[replica.gpu].granules, model.most_rows);
    replica.rows = MostRows(table, replica.granules, model.SloMs() / 2);
  }
  SortReplicas(assignment);
  return assignment;
}

}  // namespace lagoon
