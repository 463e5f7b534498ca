#pragma once

// The shares and batch limits of models that are on one GPU, for the placers that search.

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/placement/latency_table.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// A model that is to run on a GPU, with the part of its arrivals that goes there.
struct GpuDemand {
  const LatencyTable* table = nullptr;
  double rate = 0;
  double slo_ms = 1;
  /// By number of rows: the longest time of a batch that keeps the violations low (WithTimes()).
  std::vector<double> longest_ms = {};
};

/// The models of a GPU; borrowed for a call.
using GpuDemands = std::span<const GpuDemand* const>;

/// The demand with `longest_ms` filled in.
GpuDemand WithTimes(GpuDemand demand);

struct GpuShare {
  std::uint32_t granules = 1;
  std::size_t size = 0;   // index of the number of rows in the table
  double violations = 0;  // forecast, with the neighbours' interference
};

struct GpuPlan {
  std::vector<GpuShare> shares;  // by demand; all granules are handed out
  double needed = 0;             // granules that keep the violations low / granules of the GPU
  double lost = 0;               // forecast: rows per second that are late or dropped
};

/// What PlanGpu tries to reach: violations of a model.
inline constexpr double kGoodViolations = 0.003;

/// Each model gets what it needs, and a part of the rest in proportion. If they need more than
/// there is, granules go from model to model as long as fewer rows are lost. `demands`: at most
/// `granules`; their tables are of `granules`. Costs about 1 us for each model.
GpuPlan PlanGpu(GpuDemands demands, std::uint32_t granules);

}  // namespace lagoon
