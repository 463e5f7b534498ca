#include "cluster/knee.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon {
namespace {

std::vector<double> Grid(int points) {
  std::vector<double> shares;
  for (int i = 1; i <= points; ++i) shares.push_back(static_cast<double>(i) / points);
  return shares;
}

// 2.1.3 and Fig. 2 and 3. The surfaces have these knees as a parameter; the figures' curves are not
// published as numbers. 10 points: what can be read off a figure.
TEST(Knee, FindsThePublishedKnees) {
  for (const PublishedKnee& published : V100Knees()) {
    for (const std::uint32_t granules : {10u, 66u, 80u, 100u}) {
      const double knee =
          static_cast<double>(Knee(V100Surface(published.model), 1, granules)) / granules;
      EXPECT_NEAR(knee, published.share, 0.1) << published.model << ", " << granules;
    }
  }
}

TEST(Knee, NeverFallsWithTheRows) {
  for (const NamedSurface& named : V100Surfaces()) {
    for (const std::uint32_t granules : {2u, 10u, 80u, 100u}) {
      std::uint32_t before = 0;
      for (std::int64_t rows = 1; rows <= 64; ++rows) {
        const std::uint32_t knee = Knee(named.surface, rows, granules);
        EXPECT_GE(knee, before) << named.model << ", " << rows << " rows, " << granules;
        before = knee;
      }
    }
  }
  EXPECT_GT(Knee(V100Surface("alexnet"), 8, 100), Knee(V100Surface("alexnet"), 1, 100));  // Fig. 3
}

// Kneedle's point alone is below half of the device then.
TEST(Knee, AModelThatUsesTheWholeDeviceGetsIt) {
  EXPECT_EQ(Knee(V100Surface("vgg19"), 32, 100), 100u);
  EXPECT_EQ(Knee(V100Surface("vgg19-figure-16"), 1, 80), 80u);
}

TEST(Knee, ToleratesNoiseOfThreePercent) {
  Random random(3);
  for (const PublishedKnee& published : V100Knees()) {
    for (int draw = 0; draw < 500; ++draw) {
      const std::vector<double> shares = Grid(draw % 2 == 0 ? 10 : 100);
      std::vector<double> throughput;
      for (const double share : shares) {
        throughput.push_back(V100Surface(published.model).Throughput(1, share) *
                             random.Uniform(0.97, 1.03));
      }
      const auto knee = KneeOf(shares, throughput);
      ASSERT_TRUE(knee);
      EXPECT_NEAR(*knee, published.share, 0.1 + 1e-9) << published.model;
    }
  }
}

// Real models bend instead of turning at a corner: t = s + w (1 / p^8 + 1 / knee^8)^(1/8).
TEST(Knee, FindsAKneeThatIsNoCorner) {
  for (const double wanted : {0.3, 0.5, 0.6, 0.7}) {
    std::vector<double> throughput;
    for (const double share : Grid(100)) {
      const double bend = std::pow(std::pow(share, -8) + std::pow(wanted, -8), 1 / 8.0);
      throughput.push_back(1 / (0.3 + 0.7 * wanted * bend));
    }
    const auto knee = KneeOf(Grid(100), throughput);
    ASSERT_TRUE(knee);
    EXPECT_NEAR(*knee, wanted, 0.1) << wanted;
  }
}

// Blocks on units: throughput rises in steps, and a flat step is not the end.
TEST(Knee, GoesOnBeyondAFlatStep) {
  std::vector<double> throughput;
  for (int share = 1; share <= 100; ++share) throughput.push_back(std::min(share, 80) / 8 * 8 + 1);
  const auto knee = KneeOf(Grid(100), throughput);
  ASSERT_TRUE(knee);
  EXPECT_DOUBLE_EQ(*knee, 0.8);
}

TEST(Knee, FlatThroughputNeedsTheLeastShare) {
  EXPECT_EQ(*KneeOf(Grid(10), std::vector<double>(10, 7)), 0.1);
  std::vector<double> falling;
  for (int i = 10; i > 0; --i) falling.push_back(i);
  EXPECT_EQ(*KneeOf(Grid(10), falling), 0.1);
  const auto constant = Surface::FromFormula({.base_ms = 5, .fixed = 1});
  EXPECT_EQ(Knee(*constant, 4, 100), 10u * 10 / 100);
}

TEST(Knee, FewGranulesAreRoundedUp) {
  EXPECT_EQ(Knee(V100Surface("alexnet"), 1, 1), 1u);
  EXPECT_EQ(Knee(V100Surface("alexnet"), 1, 2), 1u);
  EXPECT_EQ(Knee(V100Surface("alexnet"), 1, 4), 2u);
  EXPECT_EQ(Knee(V100Surface("resnet50"), 1, 2), 2u);
}

TEST(Knee, HostileValuesAreRefused) {
  using List = std::vector<double>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(KneeOf(List{}, List{}));
  EXPECT_FALSE(KneeOf(List{1}, List{1}));
  EXPECT_FALSE(KneeOf(List{0.5, 1}, List{1}));
  EXPECT_FALSE(KneeOf(List{1, 0.5}, List{1, 2}));
  EXPECT_FALSE(KneeOf(List{0.5, 0.5}, List{1, 2}));
  EXPECT_FALSE(KneeOf(List{0, 1}, List{1, 2}));
  EXPECT_FALSE(KneeOf(List{0.5, 1.5}, List{1, 2}));
  EXPECT_FALSE(KneeOf(List{nan, 1}, List{1, 2}));
  for (const double bad : {nan, 0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(KneeOf(List{0.5, 1}, List{1, bad}));
  }
  EXPECT_TRUE(KneeOf(List{0.5, 1}, List{1e-300, 1e300}));
}

}  // namespace
}  // namespace lagoon
