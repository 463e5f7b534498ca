#include "sim/placement/worth.h"

#include <algorithm>
#include <vector>

#include "cluster/placement/forecast.h"

namespace lagoon {
namespace {

constexpr double kTooManyViolations = 0.01;

double ViolationsOf(const PlacementView& view, const Assignment& assignment,
                    const PlacedReplica& replica) {
  const ModelView& model = view.models[replica.model];
  std::vector<Neighbour> others;
  for (const PlacedReplica& other : assignment.replicas) {
    if (other.gpu != replica.gpu || other.model == replica.model) continue;
    others.push_back({view.models[other.model].latency, other.rows,
                      static_cast<double>(other.granules) / view.gpus[other.gpu].granules});
  }
  const double share = static_cast<double>(replica.granules) / view.gpus[replica.gpu].granules;
  return ViolationRate({.rate = model.rate * replica.fraction,
                        .rows = replica.rows,
                        .batch_ms = model.latency->LatencyMs(replica.rows, share, others),
                        .single_ms = model.latency->LatencyMs(1, share, others),
                        .slo_ms = ToMilliseconds(model.slo)});
}

}  // namespace

ForecastOfAssignment ForecastAssignment(const PlacementView& view, const Assignment& assignment) {
  std::vector<double> violations(view.models.size()), placed(view.models.size());
  for (const PlacedReplica& replica : assignment.replicas) {
    if (replica.model >= view.models.size() || replica.gpu >= view.gpus.size()) continue;
    violations[replica.model] += replica.fraction * ViolationsOf(view, assignment, replica);
    placed[replica.model] += replica.fraction;
  }
  ForecastOfAssignment forecast;
  for (std::size_t i = 0; i < violations.size(); ++i) {
    const double lost = std::min(1.0, violations[i] + std::max(0.0, 1 - placed[i]));
    forecast.lost += view.models[i].rate * lost;
    forecast.worst_violations = std::max(forecast.worst_violations, lost);
  }
  return forecast;
}

bool SamePlaces(const Assignment& a, const Assignment& b) { return PlacesOf(a) == PlacesOf(b); }

bool IsWorthIt(const PlacementView& view, const Assignment& next) {
  if (SamePlaces(view.current, next)) return true;
  const ForecastOfAssignment now = ForecastAssignment(view, view.current);
  if (now.worst_violations <= kTooManyViolations) return false;
  return ForecastAssignment(view, next).lost < now.lost;
}

}  // namespace lagoon
