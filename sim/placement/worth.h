#pragma once

#include "cluster/placement/placer.h"

namespace lagoon {

/// Forecast: what a model loses.
struct ForecastOfAssignment {
  double lost = 0;              // rows per second of all models that are late or dropped
  double worst_violations = 0;  // of a model, 0 to 1
};

/// What the latency models say of an assignment. Models that are not placed lose all. `assignment`
/// passes CheckAssignment; one of the past is fine too if its models and GPUs still exist.
ForecastOfAssignment ForecastAssignment(const PlacementView& view, const Assignment& assignment);

/// Whether both have the same replicas on the same GPUs, with any shares.
bool SamePlaces(const Assignment& a, const Assignment& b);

/// Whether a fleet should carry out `next`: it moves no replica, or some model is placed for the
/// first time or will lose more than 1 % with what is there now, and `next` loses less. A move
/// costs seconds of loading, so it must be worth it.
bool IsWorthIt(const PlacementView& view, const Assignment& next);

}  // namespace lagoon
