#pragma once

// For tests: what an assignment would lose.

#include <algorithm>
#include <vector>

#include "cluster/placement/forecast.h"
#include "cluster/placement/placer.h"

namespace lagoon::testing {

struct ForecastOfAssignment {
  double lost = 0;              // rows per second of all models that are late or dropped
  double worst_violations = 0;  // of a model, 0 to 1
};

inline double ViolationsOf(const PlacementView& view, const Assignment& assignment,
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
                        .slo_ms = model.SloMs()});
}

/// What the latency models say of an assignment. Models that are not placed lose all. `assignment`
/// passes CheckAssignment.
inline ForecastOfAssignment ForecastAssignment(const PlacementView& view,
                                               const Assignment& assignment) {
  std::vector<double> violations(view.models.size()), placed(view.models.size());
  for (const PlacedReplica& replica : assignment.replicas) {
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

}  // namespace lagoon::testing
