#include "sim/interference/fit_slowdown.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lagoon {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr auto kSaturating = InterferenceKind::kSaturating;

// Slowdowns x / (1 + x / limit) of loads that rise in different ways.
std::vector<SlowdownPoint> Made(double cache, double dram, double limit) {
  std::vector<SlowdownPoint> points;
  for (int i = 0; i < 24; ++i) {
    const DeviceLoad load = {0.1 * (i % 8), 0.15 * (i % 5)};
    const double x = cache * load.cache + dram * load.dram;
    points.push_back({x / (1 + x / limit), load});
  }
  return points;
}

TEST(FitSlowdown, FindsTheLimitThatMadeThePoints) {
  for (const double limit : kSlowdownLimits) {
    const SlowdownTerms terms = FitCommonSlowdown(Made(0.4, 0.6, limit), kSaturating);
    EXPECT_EQ(terms.limit, limit);
    EXPECT_EQ(terms.constant, 0);
    EXPECT_NEAR(terms.cache, 0.4, 0.1) << limit;  // the ridge draws both towards 0
    EXPECT_NEAR(terms.dram, 0.6, 0.1) << limit;
  }
}

TEST(FitSlowdown, AModelKeepsTheLimitAndStaysNearTheOthers) {
  const SlowdownTerms common = FitCommonSlowdown(Made(0.4, 0.6, 0.4), kSaturating);
  std::vector<SlowdownPoint> own = Made(0.8, 1.2, 0.4);
  own.resize(3);
  const SlowdownTerms terms = FitSlowdown(own, common, kSaturating);
  EXPECT_EQ(terms.limit, 0.4);
  EXPECT_GT(terms.cache + terms.dram, common.cache + common.dram);
  EXPECT_LT(terms.cache + terms.dram, 2.0);
}

TEST(FitSlowdown, AModelWithoutPointsHasTheCommonTerms) {
  const SlowdownTerms common = FitCommonSlowdown(Made(0.4, 0.6, 0.4), kSaturating);
  const SlowdownTerms terms = FitSlowdown({}, common, kSaturating);
  EXPECT_DOUBLE_EQ(terms.cache, common.cache);
  EXPECT_DOUBLE_EQ(terms.dram, common.dram);
  EXPECT_EQ(terms.limit, common.limit);
}

TEST(FitSlowdown, WithoutPointsNothingSlowsDown) {
  const SlowdownTerms terms = FitCommonSlowdown({}, kSaturating);
  EXPECT_EQ(terms.cache, 0);
  EXPECT_EQ(terms.dram, 0);
  EXPECT_EQ(terms.limit, kNoLimit);
}

// Noise may make a model faster beside others; loads that are all 0 say nothing.
TEST(FitSlowdown, StaysFiniteAndNotNegative) {
  const DeviceLoad none = {}, all = {10, 10};
  for (const auto& points : {std::vector<SlowdownPoint>{{-0.9, all}, {-0.9, all}},
                             {{0.5, none}, {0.2, none}},
                             {{1000, all}, {1000, all}, {1000, all}}}) {
    const SlowdownTerms terms = FitCommonSlowdown(points, kSaturating);
    EXPECT_TRUE(std::isfinite(terms.cache) && std::isfinite(terms.dram));
    EXPECT_GE(terms.cache, 0);
    EXPECT_GE(terms.dram, 0);
  }
}

}  // namespace
}  // namespace lagoon
