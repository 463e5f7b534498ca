#include "bench/sim/load.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lagoon::bench {
namespace {

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
