#pragma once

// What `lagoon place` reads and writes: a view of a fleet and an assignment, as one line of JSON.

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cluster/interference/latency_model.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// The latency models of all views so far. A placer may keep what it computed about one, so they
/// live as long as the placer, and equal times of a model give the same object.
class LatencyStore {
 public:
  /// The model with the times of `formula`, which names `model` in errors. kInvalidArgument: a
  /// field of the formula is out of its range.
  Result<const LatencyModel*> Get(const std::string& model, const SurfaceFormula& formula);
  /// Models that are kept.
  std::size_t size() const { return models_.size(); }

 private:
  std::map<std::string, std::unique_ptr<LatencyModel>> models_;  // by model and formula
};

/// Reads a view:
///
///   {"models": [{"name": "m", "slo_ms": 50, "rate": 20, "rate_error": 4, "queued": 0,
///                "memory_bytes": 1000000, "row_bytes": 1000, "most_rows": 8,
///                "latency": {"base_ms": 1, "row_ms": 2, "fixed": 0.1, "knee": 1, "growth": 0}}],
///    "gpus": [{"granules": 100, "memory_bytes": 8000000000}],
///    "current": [{"model": "m", "gpu": 0, "granules": 50, "rows": 4, "fraction": 1}]}
///
/// Absent numbers have the defaults of ModelView, GpuView, PlacedReplica and SurfaceFormula, and
/// "current" may be absent. A replica of "current" is left out if the view lacks its model or its
/// GPU. kInvalidArgument names the field; the view has passed CheckView().
Result<PlacementView> ParseView(std::string_view text, LatencyStore& latencies);

/// {"replicas": [as in "current"], "refused": [{"model": "m", "reason": "..."}]}, without an end of
/// line.
std::string AssignmentJson(const PlacementView& view, const Assignment& assignment);

}  // namespace lagoon
