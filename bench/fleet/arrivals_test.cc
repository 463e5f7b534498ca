#include "bench/fleet/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lagoon::bench {
namespace {

TEST(FleetArrivals, AreInOrderAndWithinTheirPhases) {
  const ArrivalOptions options{.models = 5, .rate_per_s = 200, .phases = 3};
  const std::vector<Arrival> arrivals = DrawArrivals(options);
  // 6000 are expected, with a standard deviation of 77.
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 6000, 400);
  EXPECT_TRUE(std::ranges::is_sorted(arrivals, {}, &Arrival::at));
  EXPECT_LT(arrivals.back().at, 3 * options.phase);
  EXPECT_GE(arrivals.front().at, Nanoseconds(0));
}

TEST(FleetArrivals, ThePopularModelChangesFromPhaseToPhase) {
  const ArrivalOptions options{.models = 10, .rate_per_s = 300, .phases = 6};
  std::vector<std::size_t> popular;
  const std::vector<Arrival> arrivals = DrawArrivals(options);
  for (int phase = 0; phase < options.phases; ++phase) {
    std::vector<int> counts(options.models);
    int all = 0;
    for (const Arrival& arrival : arrivals) {
      if (arrival.at / options.phase != phase) continue;
      ++counts[arrival.model];
      ++all;
    }
    const auto most = std::ranges::max_element(counts);
    popular.push_back(static_cast<std::size_t>(most - counts.begin()));
    EXPECT_NEAR(*most / static_cast<double>(all), 1 / 2.929, 0.05);  // the sum of 1/1 to 1/10
  }
  EXPECT_NE(std::ranges::count(popular, popular.front()), options.phases);
}

TEST(FleetArrivals, ASeedGivesTheSameArrivals) {
  ArrivalOptions options;
  const auto same = [](const Arrival& a, const Arrival& b) {
    return a.at == b.at && a.model == b.model;
  };
  EXPECT_TRUE(std::ranges::equal(DrawArrivals(options), DrawArrivals(options), same));
  const std::vector<Arrival> first = DrawArrivals(options);
  options.seed = 2;
  EXPECT_FALSE(std::ranges::equal(first, DrawArrivals(options), same));
}

}  // namespace
}  // namespace lagoon::bench
