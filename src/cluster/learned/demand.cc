#include "cluster/learned/demand.h"

#include <algorithm>
#include <cmath>

#include "cluster/placement/forecast.h"

namespace lagoon {
namespace {

constexpr double kSlack = 1.1;         // of a batch's time, for neighbours that are not known yet
constexpr double kViolations = 0.005;  // part of the requests
constexpr int kGrid = 100;             // steps of a share
constexpr double kHeavy = 0.9, kLevel = 0.8;

// Batch limits to choose from: powers of two, and the largest one.
std::vector<std::int64_t> RowChoices(std::int64_t most) {
  std::vector<std::int64_t> rows;
  for (std::int64_t count = 1; count < most; count *= 2) rows.push_back(count);
  rows.push_back(most);
  return rows;
}

double Violations(const Demand& demand, std::int64_t rows, double share) {
  return ViolationRate({.rate = demand.rate,
                        .rows = rows,
                        .batch_ms = kSlack * demand.latency->AloneMs(rows, share),
                        .single_ms = kSlack * demand.latency->AloneMs(1, share),
                        .slo_ms = demand.slo_ms});
}

// The least share of the grid with few violations; 0 if there is none.
int LeastShare(const Demand& demand, std::int64_t rows, int most) {
  const auto keeps = [&](int step) {
    return Violations(demand, rows, static_cast<double>(step) / kGrid) <= kViolations;
  };
  if (!keeps(most)) return 0;
  int low = 1, high = most;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (keeps(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

void FindNeed(Demand& demand) {
  int best = 0;
  double least = 2;  // violations on a whole GPU, if no share keeps the SLO
  for (const std::int64_t rows : RowChoices(demand.most_rows)) {
    const int step = LeastShare(demand, rows, best == 0 ? kGrid : best);
    if (step > 0 && (best == 0 || step < best)) {
      best = step;
      demand.rows = rows;
    }
    if (best > 0) continue;
    const double violations = Violations(demand, rows, 1);
    if (violations >= least) continue;
    least = violations;
    demand.rows = rows;
  }
  demand.need = best > 0 ? static_cast<double>(best) / kGrid : 1 + least;
}

double ScaleOf(const Demand& demand) {
  double sum = 0;
  for (const std::int64_t rows : {1, 4, 16, 32}) {
    for (const double share : {0.2, 0.4, 0.6, 0.8}) {
      const double throughput =
          demand.latency->alone().Throughput(std::min<std::int64_t>(rows, demand.most_rows), share);
      sum += throughput * throughput;
    }
  }
  return std::sqrt(sum / 16);
}

}  // namespace

double MostThroughput(const ModelView& model) {
  double most = model.latency->alone().Throughput(1, 1);
  for (const std::int64_t rows : RowChoices(model.most_rows)) {
    if (2 * model.latency->AloneMs(rows, 1) > model.SloMs()) break;
    most = std::max(most, model.latency->alone().Throughput(rows, 1));
  }
  return most;
}

std::vector<Demand> DemandsOf(const PlacementView& view, bool interference) {
  std::vector<Demand> demands;
  for (std::size_t i = 0; i < view.models.size(); ++i) {
    const ModelView& model = view.models[i];
    const double rate = model.rate + model.rate_error;
    const double level = rate / MostThroughput(model);
    std::size_t replicas = 1;
    if (level > kHeavy) replicas = static_cast<std::size_t>(std::ceil(level / kLevel));
    replicas = std::min(replicas, view.gpus.size());
    Demand demand{.model = i,
                  .fraction = 1 / static_cast<double>(replicas),
                  .slo_ms = model.SloMs(),
                  .latency = model.latency,
                  .memory_bytes = model.memory_bytes,
                  .row_bytes = model.row_bytes,
                  .most_rows = model.most_rows};
    demand.rate = rate * demand.fraction;
    FindNeed(demand);
    const double share = std::min(demand.need, 1.0);
    demand.batch_ms = model.latency->AloneMs(demand.rows, share);
    demand.single_ms = model.latency->AloneMs(1, share);
    if (interference) demand.load = model.latency->LoadOf(demand.rows, share);
    demand.scale = ScaleOf(demand);
    demands.insert(demands.end(), replicas, demand);
  }
  std::ranges::stable_sort(demands, std::ranges::greater(), &Demand::need);
  return demands;
}

}  // namespace lagoon
