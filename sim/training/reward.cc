#include "sim/training/reward.h"

#include <numeric>

namespace lagoon {

Rewards::Rewards(const Stages& stages, const std::vector<Demand>& demands, const RewardRule& rule)
    : stages_(stages), demands_(demands), rule_(rule) {
  double sum = 0;
  for (const Demand& demand : demands) sum += demand.rate;
  if (sum > 0) mean_rate_ = sum / static_cast<double>(demands.size());
}

std::vector<double> Rewards::Each(const GpuState& gpu, const GpuShares& shares) const {
  const std::vector<MemberForecast> forecasts = stages_.ForecastsOf(gpu, shares);
  std::vector<double> rewards;
  for (std::size_t i = 0; i < gpu.members.size(); ++i) {
    const Demand& demand = demands_[gpu.members[i]];
    const MemberForecast& forecast = forecasts[i];
    const double throughput = rule_.capacity
                                  ? 1e3 * static_cast<double>(shares.rows[i]) / forecast.batch_ms
                                  : demand.rate * (1 - forecast.violations);
    const double weight = rule_.by_requests ? demand.rate / mean_rate_ : 1;
    rewards.push_back(throughput / demand.scale / kPenalty - weight * forecast.violations);
  }
  return rewards;
}

double Rewards::Sum(const GpuState& gpu, const GpuShares& shares) const {
  const std::vector<double> rewards = Each(gpu, shares);
  return std::accumulate(rewards.begin(), rewards.end(), 0.0);
}

double Rewards::Gain(const GpuState& gpu, const GpuShares& shares) const {
  return Sum(gpu, shares) - Sum(gpu, stages_.GuessedShares(gpu));
}

}  // namespace lagoon
