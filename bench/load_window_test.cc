#include "bench/load_window.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lagoon::bench {
namespace {

TEST(LoadWindow, InterpolatesOnALogarithmicScale) {
  const std::vector<LoadPoint> points{{1, 10}, {2, 20}, {4, 320}};
  EXPECT_NEAR(LoadAt(points, 80), std::sqrt(8), 1e-9);
  EXPECT_EQ(LoadAt(points, 5), 1);     // above the limit from the start
  EXPECT_EQ(LoadAt(points, 1000), 4);  // never
  EXPECT_NEAR(ValueAt(points, std::sqrt(8)), 80, 1e-9);
  EXPECT_EQ(ValueAt(points, 0.5), 10);
  EXPECT_EQ(ValueAt(points, 9), 320);
}

TEST(LoadWindow, AWindowHasAllJobsAtTheRateAskedFor) {
  const LoadShape shape{.sigma = 1.5, .jobs = 400};
  const DisbWindow slow = MakeLoadWindow({0.75, 0.25}, shape, 10);
  const DisbWindow fast = MakeLoadWindow({0.75, 0.25}, shape, 40);
  ASSERT_EQ(slow.arrivals.size(), 2u);
  EXPECT_EQ(slow.arrivals[0].size() + slow.arrivals[1].size(), 400u);
  EXPECT_NEAR(static_cast<double>(slow.arrivals[0].size()), 300, 30);
  EXPECT_NEAR(ToMilliseconds(slow.span), 40'000, 1);
  ASSERT_EQ(fast.arrivals[1].size(), slow.arrivals[1].size());
  for (std::size_t i = 0; i < fast.arrivals[1].size(); ++i) {
    EXPECT_NEAR(ToMilliseconds(slow.arrivals[1][i]), 4 * ToMilliseconds(fast.arrivals[1][i]), 1e-3);
  }
}

}  // namespace
}  // namespace lagoon::bench
