#include "cluster/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "cluster/checks.h"

namespace lagoon {
namespace {

constexpr double kDeadBand = 0.05;
constexpr double kMostGrowth = 2;
constexpr double kMostRate = 1e12, kMostMs = 1e9, kMostCapacity = 1e9;

Status Check(const ShareLoad& load) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("share", load.share, {1e-9, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("latency_ms", load.latency_ms, {0, kMostMs}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("slo_ms", load.slo_ms, {1e-6, kMostMs}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("rows_per_s", load.rows_per_s, {1e-9, kMostRate}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("utilisation", load.utilisation, {0.01, 1}));
  return CheckBounds("arrivals_per_s", load.arrivals_per_s, {0, kMostRate});
}

double Sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Gives `left` to the models `waiting`, which demand more than that.
void ShareShortage(std::span<const std::size_t> waiting, MaxMinRules::Shortage shortage,
                   double left,
                   std::vector<double>& shares) {  // holds the demands before
  double sum = 0;
  for (const std::size_t i : waiting) sum += shares[i];
  for (const std::size_t i : waiting) {
    const double even = left / static_cast<double>(waiting.size());
    shares[i] = shortage == MaxMinRules::Shortage::kEvenly ? even : left * (shares[i] / sum);
  }
}

void ShareSurplus(double capacity, std::vector<double>& shares) {
  const double sum = Sum(shares);
  for (double& share : shares) {
    share = sum > 0 ? capacity * (share / sum) : capacity / static_cast<double>(shares.size());
  }
}

}  // namespace

Result<double> TuneShare(const ShareLoad& load, double granule) {
  LAGOON_RETURN_IF_ERROR(Check(load));
  LAGOON_RETURN_IF_ERROR(CheckBounds("granule", granule, {1e-9, 1}));
  const double need = std::max(load.latency_ms / load.slo_ms,
                               load.arrivals_per_s / (load.utilisation * load.rows_per_s));
  if (std::abs(need - 1) <= kDeadBand || (load.host_bound && need > 1)) return load.share;
  return std::clamp(load.share * std::min(need, kMostGrowth), granule, 1.0);
}

Result<std::vector<double>> MaxMin(std::span<const double> demands, double capacity,
                                   const MaxMinRules& rules) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("the capacity", capacity, {1e-9, kMostCapacity}));
  std::vector<double> shares;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if (!(demands[i] >= 0 && std::isfinite(demands[i]))) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("demand {} is {}, must be 0 or more", i, demands[i]));
    }
    shares.push_back(std::min(demands[i], capacity));
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return shares[i]; });

  double left = capacity;
  std::size_t met = 0;
  while (met < order.size()) {
    const double demand = shares[order[met]];
    if (demand > left / static_cast<double>(order.size() - met)) break;
    left -= demand;
    ++met;
  }
  if (met < order.size()) {
    ShareShortage(std::span(order).subspan(met), rules.shortage, left, shares);
  } else if (rules.surplus == MaxMinRules::Surplus::kProportional) {
    ShareSurplus(capacity, shares);
  }
  return shares;
}

Result<std::vector<std::uint32_t>> ToGranules(std::span<const double> exact,
                                              std::uint32_t granules) {
  if (exact.size() > granules) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} models on {} granules of a device: a model needs at least one",
                            exact.size(), granules));
  }
  for (const double share : exact) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("a share in granules", share, {0, 1.0 * granules}));
  }
  constexpr double kRounding = 1e-6;
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("the sum of shares in granules", Sum(exact), {0, granules + kRounding}));
  const auto target = std::max(static_cast<std::int64_t>(std::llround(Sum(exact))),
                               static_cast<std::int64_t>(exact.size()));
  std::vector<std::uint32_t> whole;
  std::int64_t left = target;
  for (const double share : exact) {
    whole.push_back(std::max(1u, static_cast<std::uint32_t>(share)));
    left -= whole.back();
  }
  const auto missing = [&](std::size_t i) { return exact[i] - whole[i]; };
  for (; left != 0; left += left > 0 ? -1 : 1) {
    std::size_t best = exact.size();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (left < 0 && whole[i] == 1) continue;
      if (best == exact.size() ||
          (left > 0 ? missing(i) > missing(best) : missing(i) < missing(best))) {
        best = i;
      }
    }
    whole[best] += left > 0 ? 1 : -1;
  }
  return whole;
}

}  // namespace lagoon
