#include "cluster/monotone.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace lagoon {
namespace {

TEST(Isotonic, LeavesWhatRises) {
  const std::vector<double> values = {1, 1, 2, 5};
  EXPECT_EQ(Isotonic(values), values);
}

TEST(Isotonic, GivesViolatorsTheirMean) {
  EXPECT_EQ(Isotonic(std::vector<double>{1, 4, 2, 3, 9}), (std::vector<double>{1, 3, 3, 3, 9}));
  EXPECT_EQ(Isotonic(std::vector<double>{3, 2, 1}), (std::vector<double>{2, 2, 2}));
  EXPECT_TRUE(Isotonic({}).empty());
}

TEST(MonotoneCurve, GoesThroughItsPointsAndIsConstantBeyond) {
  const MonotoneCurve curve({1, 2, 4}, {10, 20, 21});
  EXPECT_DOUBLE_EQ(curve.At(1), 10);
  EXPECT_DOUBLE_EQ(curve.At(2), 20);
  EXPECT_DOUBLE_EQ(curve.At(4), 21);
  EXPECT_DOUBLE_EQ(curve.At(-1e300), 10);
  EXPECT_DOUBLE_EQ(curve.At(1e300), 21);
  EXPECT_DOUBLE_EQ(MonotoneCurve({3}, {7}).At(100), 7);
}

TEST(MonotoneCurve, IsALineThroughPointsOfALine) {
  const MonotoneCurve curve({1, 2, 4, 8}, {5, 7, 11, 19});
  for (double x = 1; x <= 8; x += 0.125) EXPECT_NEAR(curve.At(x), 3 + 2 * x, 1e-12);
}

// A cubic without the bound of the slopes rises above the step and falls below it.
TEST(MonotoneCurve, RandomPointsGiveACurveThatNeverFalls) {
  Random random(1);
  for (int draw = 0; draw < 1000; ++draw) {
    std::vector<double> x = {0}, y = {0};
    for (int i = 0; i < 8; ++i) {
      x.push_back(x.back() + random.Uniform(0.01, 3));
      y.push_back(y.back() + (random.Happens(0.3) ? 0 : random.Uniform(0, 10)));
    }
    const MonotoneCurve curve(x, y);
    double before = 0;
    for (int i = 0; i <= 400; ++i) {
      const double value = curve.At(x.back() * i / 400);
      ASSERT_GE(value, before - 1e-12);
      before = value;
    }
  }
}

TEST(MonotoneCurveDeathTest, RefusesPointsOutOfOrder) {
  EXPECT_DEATH(MonotoneCurve({1, 1}, {1, 2}), "greater_equal");
  EXPECT_DEATH(MonotoneCurve({1, 2}, {2, 1}), "is_sorted");
  EXPECT_DEATH(MonotoneCurve({}, {}), "empty");
}

}  // namespace
}  // namespace lagoon
