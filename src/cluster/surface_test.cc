#include "cluster/surface.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

SurfacePoints PointsOf(const Surface& surface) {
  SurfacePoints points{{1, 2, 4, 8, 16, 32}, {}, {}};
  for (int share = 1; share <= 20; ++share) points.shares.push_back(share / 20.0);
  for (const std::int64_t rows : points.rows) {
    std::vector<double>& line = points.latency_ms.emplace_back();
    for (const double share : points.shares) line.push_back(surface.LatencyMs(rows, share));
  }
  return points;
}

Surface FromPoints(SurfacePoints points) {
  auto surface = Surface::FromPoints(std::move(points));
  EXPECT_TRUE(surface.has_value()) << surface.error().message;
  return *std::move(surface);
}

TEST(SurfaceFormula, IsTheFormula) {
  const auto surface =
      Surface::FromFormula({.base_ms = 10, .row_ms = 2, .fixed = 0.25, .knee = 0.5, .growth = 0.5});
  ASSERT_TRUE(surface);
  EXPECT_DOUBLE_EQ(surface->LatencyMs(1, 1), 12);
  EXPECT_DOUBLE_EQ(surface->LatencyMs(1, 0.5), 12);
  EXPECT_DOUBLE_EQ(surface->LatencyMs(1, 0.25), 12 * (0.25 + 0.75 * 2));
  EXPECT_DOUBLE_EQ(surface->LatencyMs(4, 0.5), 18 * (0.25 + 0.75 * 2));  // the knee is 1
  EXPECT_DOUBLE_EQ(surface->LatencyMs(16, 1), 42);
  EXPECT_DOUBLE_EQ(surface->LatencyMs(16, 7), 42);
  EXPECT_DOUBLE_EQ(surface->Throughput(4, 1), 4000 / 18.0);
}

// Table 5 of the paper; the lines miss its points by up to 6 %.
TEST(V100Surfaces, HaveTheTimesOfTable5) {
  EXPECT_NEAR(V100Surface("resnet50").LatencyMs(8, 1), 9.75, 0.6);
  EXPECT_NEAR(V100Surface("resnet50").LatencyMs(16, 1), 14.5, 1.0);
  EXPECT_NEAR(V100Surface("resnet50").LatencyMs(32, 1), 25.9, 0.2);
  EXPECT_NEAR(V100Surface("vgg19").LatencyMs(8, 1), 30.54, 0.1);
  EXPECT_NEAR(V100Surface("vgg19").LatencyMs(16, 1), 40.95, 0.5);
  EXPECT_NEAR(V100Surface("vgg19").LatencyMs(32, 1), 63.12, 0.1);
}

TEST(V100Surfaces, HaveTheSingleNumbersOfThePaper) {
  EXPECT_NEAR(V100Surface("alexnet").Throughput(1, 1), 460, 1);            // 4.4
  EXPECT_NEAR(V100Surface("vgg19-figure-16").LatencyMs(1, 0.3), 65, 0.1);  // Fig. 16
  // Table 2: throughput / latency, with default MPS.
  for (const auto& [model, eta] :
       {std::pair{"mobilenet", 330.0}, {"resnet50", 29.08}, {"vgg16", 3.79}, {"gnmt", 1.97}}) {
    EXPECT_NEAR(V100Surface(model).Throughput(1, 1) / V100Surface(model).LatencyMs(1, 1) / eta, 1,
                0.1)
        << model;
  }
  // 4.6.1: VGG-16 has 550 images/s within 50 ms.
  EXPECT_LT(V100Surface("vgg16").LatencyMs(28, 1), 50);
  EXPECT_NEAR(V100Surface("vgg16").Throughput(28, 1), 550, 20);
  for (const NamedSurface& named : V100Surfaces()) EXPECT_FALSE(named.source.empty());
}

TEST(SurfacePoints, GoesThroughItsPoints) {
  const SurfacePoints points = PointsOf(V100Surface("vgg19"));
  const Surface surface = FromPoints(points);
  for (std::size_t i = 0; i < points.rows.size(); ++i) {
    for (std::size_t j = 0; j < points.shares.size(); ++j) {
      EXPECT_NEAR(surface.LatencyMs(points.rows[i], points.shares[j]), points.latency_ms[i][j],
                  1e-9 * points.latency_ms[i][j]);
    }
  }
}

// The knee is a corner, which no smooth curve follows between points 5 points of share apart.
TEST(SurfacePoints, BetweenPointsIsNearTheSurfaceTheyComeFrom) {
  const Surface& truth = V100Surface("vgg19");
  const Surface surface = FromPoints(PointsOf(truth));
  for (std::int64_t rows = 1; rows <= 32; ++rows) {
    for (double share = 0.1; share <= 1; share += 0.013) {
      EXPECT_NEAR(surface.LatencyMs(rows, share) / truth.LatencyMs(rows, share), 1, 0.03)
          << rows << " rows, share " << share;
    }
  }
}

TEST(SurfacePoints, BeyondThePointsTimeStaysOrGrowsInProportion) {
  const Surface surface = FromPoints({{2, 4}, {0.2, 0.5}, {{30, 20}, {50, 36}}});
  EXPECT_DOUBLE_EQ(surface.LatencyMs(1, 0.2), 30);
  EXPECT_DOUBLE_EQ(surface.LatencyMs(2, 1), 20);
  EXPECT_DOUBLE_EQ(surface.LatencyMs(2, 0.1), 60);
  EXPECT_DOUBLE_EQ(surface.LatencyMs(8, 0.5), 72);
  EXPECT_DOUBLE_EQ(surface.LatencyMs(8, 0.1), 200);
  const Surface one = FromPoints({{1}, {1}, {{5}}});
  EXPECT_DOUBLE_EQ(one.LatencyMs(3, 0.5), 30);
}

TEST(SurfacePoints, ContradictingPointsAreSmoothed) {
  // At a share of 0.5, 4 rows were faster than 2; at 4 rows, the whole device was slower.
  const Surface surface = FromPoints({{2, 4}, {0.5, 1}, {{20, 10}, {18, 19}}});
  EXPECT_GE(surface.LatencyMs(4, 0.5), surface.LatencyMs(2, 0.5));
  EXPECT_GE(surface.LatencyMs(4, 0.5), surface.LatencyMs(4, 1));
  EXPECT_DOUBLE_EQ(surface.LatencyMs(2, 1), 10);
  EXPECT_NEAR(surface.LatencyMs(4, 0.5), 19, 1.01);
}

TEST(SurfacePoints, RandomPointsGiveTimesThatRiseWithRowsAndFallWithTheShare) {
  Random random(2);
  for (int draw = 0; draw < 200; ++draw) {
    SurfacePoints points;
    for (std::int64_t rows = 1; rows <= 32; rows += 1 + random.Below(9)) {
      points.rows.push_back(rows);
    }
    for (double share = random.Uniform(0.01, 0.2); share < 1; share += random.Uniform(0.02, 0.4)) {
      points.shares.push_back(share);
    }
    for (std::size_t i = 0; i < points.rows.size(); ++i) {
      std::vector<double>& line = points.latency_ms.emplace_back();
      for (const double share : points.shares) {
        line.push_back((1 + static_cast<double>(i)) / share * random.Uniform(0.5, 2));
      }
    }
    const Surface surface = FromPoints(points);
    for (int i = 0; i < 200; ++i) {
      const std::int64_t rows = 1 + random.Below(40);
      const double share = random.Uniform(0.005, 1);
      const double time = surface.LatencyMs(rows, share);
      ASSERT_LE(time, surface.LatencyMs(rows + 1 + random.Below(3), share) * (1 + 1e-12));
      ASSERT_GE(time, surface.LatencyMs(rows, share + random.Uniform(0, 0.1)) * (1 - 1e-12));
    }
  }
}

std::string FormulaError(SurfaceFormula formula) {
  const auto surface = Surface::FromFormula(formula);
  return surface ? "" : surface.error().message;
}

TEST(SurfaceFormula, HostileValuesAreRefusedByName) {
  const SurfaceFormula good{.base_ms = 1, .row_ms = 1};
  EXPECT_EQ(FormulaError(good), "");
  for (const double value : {kNan, kInfinity, -1.0, 1e300}) {
    const auto refused = [&](double SurfaceFormula::*member, const char* name) {
      SurfaceFormula formula = good;
      formula.*member = value;
      EXPECT_EQ(FormulaError(formula).find(name), 0u) << name << " " << FormulaError(formula);
    };
    refused(&SurfaceFormula::base_ms, "base_ms is ");
    refused(&SurfaceFormula::row_ms, "row_ms is ");
    refused(&SurfaceFormula::fixed, "fixed is ");
    refused(&SurfaceFormula::knee, "knee is ");
    refused(&SurfaceFormula::growth, "growth is ");
  }
  EXPECT_EQ(FormulaError({.base_ms = 0, .row_ms = 0}),
            "the time of one row is 0, must be from 1e-06 to 2000000");
  EXPECT_NE(FormulaError({.base_ms = 1, .row_ms = 1, .knee = 0}), "");
}

std::string PointsError(SurfacePoints points) {
  const auto surface = Surface::FromPoints(std::move(points));
  return surface ? "" : surface.error().message;
}

TEST(SurfacePoints, HostileValuesAreRefusedByName) {
  EXPECT_EQ(PointsError({{1, 2}, {0.5, 1}, {{2, 1}, {4, 2}}}), "");
  EXPECT_EQ(PointsError({}), "rows has 0 entries, must have 1 to 64");
  EXPECT_EQ(PointsError({{2, 2}, {1}, {{1}, {1}}}),
            "rows[1] is 2, must be above rows[0], which is 2, by at least 1");
  EXPECT_EQ(PointsError({{0}, {1}, {{1}}}), "an entry of rows is 0, must be from 1 to 1000000");
  EXPECT_EQ(PointsError({{1}, {1, 0.5}, {{1, 1}}}),
            "shares[1] is 0.5, must be above shares[0], which is 1, by at least 1e-06");
  EXPECT_NE(PointsError({{1}, {0.5, std::nextafter(0.5, 1)}, {{1, 1}}}), "");
  EXPECT_NE(PointsError({{1}, {kNan}, {{1}}}), "");
  EXPECT_NE(PointsError({{1}, {0}, {{1}}}), "");
  EXPECT_NE(PointsError({{1}, {1.5}, {{1}}}), "");
  EXPECT_EQ(PointsError({{1}, {1}, {}}),
            "latency_ms has 0 lists, must have 1, one for each of rows");
  EXPECT_EQ(PointsError({{1}, {1}, {{1, 2}}}),
            "latency_ms[0] has 2 entries, must have 1, one for each of shares");
  for (const double value : {kNan, kInfinity, 0.0, -1.0, 1e300}) {
    EXPECT_EQ(PointsError({{1}, {1}, {{value}}}).find("latency_ms[0][0] is "), 0u);
  }
}

TEST(SurfaceDeathTest, RefusesABatchWithoutRowsAndAShareThatIsNone) {
  const Surface& surface = V100Surface("vgg19");
  EXPECT_DEATH(surface.LatencyMs(0, 1), "rows >= 1");
  EXPECT_DEATH(surface.LatencyMs(1, 0), "share > 0");
  EXPECT_DEATH(surface.LatencyMs(1, kNan), "share > 0");
}

}  // namespace
}  // namespace lagoon
