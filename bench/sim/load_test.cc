#include "bench/sim/load.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lagoon::bench {
namespace {

TEST(Load, InterpolatesOnALogarithmicScale) {
  const std::vector<LoadPoint> points{{1, 10}, {2, 20}, {4, 320}};
  EXPECT_NEAR(LoadAt(points, 80), std::sqrt(8), 1e-9);
  EXPECT_EQ(LoadAt(points, 5), 1);     // above the limit from the start
  EXPECT_EQ(LoadAt(points, 1000), 4);  // never
  EXPECT_NEAR(ValueAt(points, std::sqrt(8)), 80, 1e-9);
  EXPECT_EQ(ValueAt(points, 0.5), 10);
  EXPECT_EQ(ValueAt(points, 9), 320);
}

TEST(Load, AWindowHasAllJobsAtTheRateAskedFor) {
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

TEST(Load, EveryJobRunsAndAnIdleDeviceTakesTheModelsTime) {
  const LoadMix mix = *LoadMix::Open("t4", {{"resnet18", 0.75}, {"inceptionv3", 0.25}});
  const LoadResult result =
      *RunLoad(mix, {.sigma = 1.5, .jobs = 200}, 0.5, *MakeScheduler("job-streams"));
  EXPECT_EQ(result.latencies_ms.size(), 200u);
  EXPECT_NEAR(static_cast<double>(result.by_model[0].size()), 150, 25);
  EXPECT_NEAR(result.per_second, 0.5, 0.01);
  EXPECT_NEAR(*std::min_element(result.by_model[0].begin(), result.by_model[0].end()), 1.58, 0.1);
  EXPECT_NEAR(*std::min_element(result.by_model[1].begin(), result.by_model[1].end()), 31.2, 0.6);
}

TEST(Load, OverloadShowsInBothThroughputAndLatency) {
  const LoadMix mix = *LoadMix::Open("t4", {{"inceptionv3", 1}});
  const LoadResult result =
      *RunLoad(mix, {.sigma = 0, .jobs = 100}, 1000, *MakeScheduler("single-stream"));
  EXPECT_NEAR(result.per_second, 1000 / 31.2, 1);
  EXPECT_GT(result.latencies_ms.back(), 1000);
}

TEST(Load, AModelThatIsNotThereIsNamed) {
  const auto mix = LoadMix::Open("t4", {{"vgg19", 1}});
  ASSERT_FALSE(mix);
  EXPECT_NE(mix.error().message.find("vgg19"), std::string::npos);
}

}  // namespace
}  // namespace lagoon::bench
