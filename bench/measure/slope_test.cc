#include "bench/measure/slope.h"

#include <gtest/gtest.h>

#include <vector>

namespace lagoon::bench {
namespace {

TEST(SlopeOfSecondHalf, IsThatOfTheSecondHalfOnly) {
  std::vector<Point> points;
  for (int i = 0; i < 50; ++i) points.push_back({1.0 * i, 100.0 * i});  // caches fill
  for (int i = 50; i < 100; ++i) points.push_back({1.0 * i, 5000 + 2.0 * i});
  EXPECT_NEAR(SlopeOfSecondHalf(points), 2, 1e-9);
}

TEST(SlopeOfSecondHalf, NoiseThatGoesUpAndDownIsNoSlope) {
  std::vector<Point> points;
  for (int i = 0; i < 400; ++i) points.push_back({1.0 * i, i % 2 == 0 ? 10.0 : 20.0});
  EXPECT_NEAR(SlopeOfSecondHalf(points), 0, 0.01);
}

TEST(SlopeOfSecondHalf, TooLittleIsNoSlope) {
  EXPECT_EQ(SlopeOfSecondHalf({}), 0);
  EXPECT_EQ(SlopeOfSecondHalf(std::vector<Point>{{1, 1}, {2, 2}, {3, 3}}), 0);
  EXPECT_EQ(SlopeOfSecondHalf(std::vector<Point>(10, Point{1, 2})), 0);
}

}  // namespace
}  // namespace lagoon::bench
