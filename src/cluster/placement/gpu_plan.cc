#include "cluster/placement/gpu_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cluster/placement/forecast.h"

namespace lagoon {
namespace {

// Rounds of needs and interference, each of which depends on the other.
constexpr int kRounds = 2;
// Moves of granules from one model to another, if there are too few.
constexpr int kMostMoves = 16;

struct Need {
  std::uint32_t granules = 1;  // more than the GPU has: no share is enough
  std::size_t size = 0;
};

// The fewest granules, and with them the most rows.
Need NeedOf(const GpuDemand& demand, double slowdown) {
  Need best = {std::numeric_limits<std::uint32_t>::max(), 0};
  for (std::size_t size = 0; size < demand.table->sizes(); ++size) {
    const std::uint32_t granules = demand.table->Fewest(size, demand.longest_ms[size] / slowdown);
    if (granules <= best.granules) best = {granules, size};
  }
  return best;
}

DeviceLoad LoadOf(const GpuDemand& demand, const GpuShare& share) {
  DeviceLoad load = demand.table->Load(share.size, share.granules);
  // A model that is idle for a part of the time loads the device in the other part only.
  const double capacity = static_cast<double>(demand.table->rows(share.size)) /
                          demand.table->Ms(share.size, share.granules) * 1e3;
  const double busy = std::min(1.0, demand.rate / capacity);
  return {load.cache * busy, load.dram * busy};
}

// The factor by which each model is slower than alone.
std::vector<double> SlowdownsOf(GpuDemands demands, const std::vector<GpuShare>& shares) {
  std::vector<DeviceLoad> loads;
  DeviceLoad sum;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    loads.push_back(LoadOf(*demands[i], shares[i]));
    sum += loads[i];
  }
  std::vector<double> slowdowns;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const DeviceLoad others = {sum.cache - loads[i].cache, sum.dram - loads[i].dram};
    slowdowns.push_back(demands[i]->table->model().Slowdown(others, demands.size() > 1));
  }
  return slowdowns;
}

double ViolationsOf(const GpuDemand& demand, const GpuShare& share, double slowdown) {
  return ViolationRate({.rate = demand.rate,
                        .rows = demand.table->rows(share.size),
                        .batch_ms = demand.table->Ms(share.size, share.granules) * slowdown,
                        .single_ms = demand.table->Ms(0, share.granules) * slowdown,
                        .slo_ms = demand.slo_ms});
}

// The number of rows with the fewest violations on the share: of all, or of the sizes next to the
// present one.
enum class Sizes : std::uint8_t { kAll, kNear };
void ChooseRows(const GpuDemand& demand, GpuShare& share, double slowdown,
                Sizes sizes = Sizes::kAll) {
  GpuShare best = share;
  best.violations = std::numeric_limits<double>::infinity();
  const std::size_t from = sizes == Sizes::kAll || share.size == 0 ? 0 : share.size - 1;
  const std::size_t end = sizes == Sizes::kAll ? demand.table->sizes()
                                               : std::min(demand.table->sizes(), share.size + 2);
  for (std::size_t size = from; size < end; ++size) {
    GpuShare tried = {share.granules, size, 0};
    tried.violations = ViolationsOf(demand, tried, slowdown);
    if (tried.violations < best.violations * (1 - 1e-9)) best = tried;
  }
  share = best;
}

// Shares of `granules` in proportion to `needs`, at least 1 each.
void HandOut(const std::vector<double>& needs, std::uint32_t granules,
             std::vector<GpuShare>& shares) {
  double sum = 0;
  for (const double need : needs) sum += need;
  std::uint32_t used = 0;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const double part = std::floor(granules * needs[i] / sum);
    shares[i].granules = std::max(1U, static_cast<std::uint32_t>(part));
    used += shares[i].granules;
  }
  for (std::size_t i = 0; used != granules; i = (i + 1) % shares.size()) {
    if (used < granules) {
      ++shares[i].granules;
      ++used;
    } else if (shares[i].granules > 1) {
      --shares[i].granules;
      --used;
    }
  }
}

// Moves granules between models as long as fewer rows are lost.
void Improve(GpuDemands demands, const std::vector<double>& slowdowns,
             std::vector<GpuShare>& shares) {
  const auto lost = [&](std::size_t i) { return demands[i]->rate * shares[i].violations; };
  std::uint32_t step = 8;
  for (int move = 0; move < kMostMoves && step > 0; ++move) {
    double best = 1e-9;
    std::size_t from = 0, to = 0;
    std::vector<double> gains(demands.size()), costs(demands.size());
    for (std::size_t i = 0; i < demands.size(); ++i) {
      GpuShare more = shares[i], less = shares[i];
      more.granules = std::min(more.granules + step, demands[i]->table->granules());
      ChooseRows(*demands[i], more, slowdowns[i]);
      gains[i] = lost(i) - demands[i]->rate * more.violations;
      costs[i] = std::numeric_limits<double>::infinity();
      if (less.granules <= step) continue;
      less.granules -= step;
      ChooseRows(*demands[i], less, slowdowns[i]);
      costs[i] = demands[i]->rate * less.violations - lost(i);
    }
    for (std::size_t i = 0; i < demands.size(); ++i) {
      for (std::size_t j = 0; j < demands.size(); ++j) {
        if (i == j || gains[i] - costs[j] <= best) continue;
        best = gains[i] - costs[j];
        to = i;
        from = j;
      }
    }
    if (to == from) {
      step /= 2;
      continue;
    }
    shares[to].granules += step;
    shares[from].granules -= step;
    ChooseRows(*demands[to], shares[to], slowdowns[to]);
    ChooseRows(*demands[from], shares[from], slowdowns[from]);
  }
}

// The violations of each model with its share, and the rows that are lost.
void Forecast(GpuDemands demands, GpuPlan& plan) {
  const std::vector<double> slowdowns = SlowdownsOf(demands, plan.shares);
  plan.lost = 0;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    plan.shares[i].violations = ViolationsOf(*demands[i], plan.shares[i], slowdowns[i]);
    plan.lost += demands[i]->rate * plan.shares[i].violations;
  }
}

}  // namespace

GpuDemand WithTimes(GpuDemand demand) {
  demand.longest_ms.clear();
  for (std::size_t size = 0; size < demand.table->sizes(); ++size) {
    const std::uint32_t all = demand.table->granules();
    demand.longest_ms.push_back(LongestBatchMs({.rate = demand.rate,
                                                .rows = demand.table->rows(size),
                                                .batch_ms = demand.table->Ms(size, all),
                                                .single_ms = demand.table->Ms(0, all),
                                                .slo_ms = demand.slo_ms},
                                               kGoodViolations));
  }
  return demand;
}

GpuPlan PlanGpu(GpuDemands demands, std::uint32_t granules) {
  GpuPlan plan;
  if (demands.empty()) return plan;
  LAGOON_CHECK(demands.size() <= granules);
  plan.shares.resize(demands.size());
  std::vector<double> slowdowns(demands.size(), 1.0), needs(demands.size());
  bool enough = true;
  for (int round = 0; round < kRounds; ++round) {
    double sum = 0;
    enough = true;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const Need need = NeedOf(*demands[i], slowdowns[i]);
      enough = enough && need.granules <= granules;
      // A model for which the whole GPU is too small needs more than that.
      needs[i] = need.granules <= granules ? need.granules : 1.2 * granules;
      plan.shares[i].size = need.granules <= granules ? need.size : demands[i]->table->sizes() - 1;
      sum += needs[i];
    }
    plan.needed = sum / granules;
    enough = enough && plan.needed <= 1;
    HandOut(needs, granules, plan.shares);
    slowdowns = SlowdownsOf(demands, plan.shares);
  }
  for (std::size_t i = 0; i < demands.size(); ++i) {
    ChooseRows(*demands[i], plan.shares[i], slowdowns[i], enough ? Sizes::kNear : Sizes::kAll);
  }
  if (!enough) Improve(demands, slowdowns, plan.shares);
  Forecast(demands, plan);
  return plan;
}

}  // namespace lagoon
