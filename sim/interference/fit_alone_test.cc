#include "sim/interference/fit_alone.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace lagoon {
namespace {

using Times = std::function<double(std::int64_t rows, double share)>;

// InSS's MnasNet: some time that no share shortens, and a time for each row.
double WithLeast(std::int64_t rows, double share) {
  return std::max(3.63, 0.5 + 0.0647 * static_cast<double>(rows) / share);
}

Surface Fitted(const Times& times, AloneKind kind) {
  std::vector<TimedPoint> points;
  for (const std::int64_t rows : {1, 4, 12, 32}) {
    for (const double share : {0.1, 0.25, 0.5, 1.0}) {
      points.push_back({rows, share, times(rows, share)});
    }
  }
  auto surface = FitAlone(points, kind);
  EXPECT_TRUE(surface.has_value());
  return *std::move(surface);
}

double WorstError(const Surface& surface, const Times& times) {
  double worst = 0;
  for (std::int64_t rows = 1; rows <= 32; ++rows) {
    for (double share = 0.1; share < 1; share += 0.05) {
      worst = std::max(worst, std::abs(surface.LatencyMs(rows, share) / times(rows, share) - 1));
    }
  }
  return worst;
}

TEST(FitAlone, MeasuredTimesStay) {
  for (const AloneKind kind : {AloneKind::kRegression, AloneKind::kKinked}) {
    const Surface surface = Fitted(
        [](std::int64_t rows, double share) { return 1 + static_cast<double>(rows) / share; },
        kind);
    EXPECT_NEAR(surface.LatencyMs(4, 0.25), 17, 0.01);
    EXPECT_NEAR(surface.LatencyMs(32, 0.1), 321, 0.01);
  }
}

TEST(FitAlone, KinkedKeepsAKneeSharper) {
  const double kinked = WorstError(Fitted(WithLeast, AloneKind::kKinked), WithLeast);
  EXPECT_LT(kinked, 0.15);
  EXPECT_LT(kinked, 0.6 * WorstError(Fitted(WithLeast, AloneKind::kRegression), WithLeast));
}

// Times that no share changes: what is continued below the least measured share pulls none down.
TEST(FitAlone, SharesBelowThoseMeasuredDoNotChangeThose) {
  const auto times = [](std::int64_t rows, double share) {
    return rows < 32 ? 6.5 : 5 + 1.5 / share;
  };
  const Surface surface = Fitted(times, AloneKind::kKinked);
  for (const double share : {0.1, 0.2, 0.5, 1.0}) {
    EXPECT_NEAR(surface.LatencyMs(1, share), 6.5, 1e-9) << share;
  }
  for (const double share : {0.02, 0.05, 0.08}) {
    EXPECT_GE(surface.LatencyMs(1, share), 6.5 - 1e-9) << share;
    EXPECT_LE(surface.LatencyMs(1, share), 6.5 * 0.1 / share * (1 + 1e-9)) << share;
  }
}

TEST(FitAlone, ManyMeasuredPointsAreCloseEnough) {
  std::vector<TimedPoint> points;
  for (std::int64_t rows = 1; rows <= 64; ++rows) {
    points.push_back({rows, 0.5, static_cast<double>(rows)});
  }
  EXPECT_TRUE(FitAlone(points, AloneKind::kKinked).has_value());
  points.push_back({65, 0.5, 65});
  const auto surface = FitAlone(points, AloneKind::kKinked);
  ASSERT_FALSE(surface.has_value());
  EXPECT_EQ(surface.error().message, "has 65 numbers of rows, may have 64");
}

}  // namespace
}  // namespace lagoon
