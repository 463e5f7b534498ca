#include "bench/split/search_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lagoon::bench {
namespace {

// SPLIT Figure 5: some ten generations are enough, also from a random start.
TEST(SearchMetrics, ARandomStartFindsTheOptimumWithinThePapersGenerations) {
  for (const char* name : {"resnet50", "vgg19"}) {
    const SplitModel model = SplitModelOfList(*MakeSimModel("nano", name));
    for (const std::uint32_t parts : {2, 3, 4}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(parts));
      const auto generations = GenerationsOf(name, model, parts);
      ASSERT_TRUE(generations) << generations.error().message;
      EXPECT_EQ(generations->at("random").size(), 15u);
      EXPECT_EQ(generations->at("even").size(), 15u);
      auto within = generations->at("random_within_1_percent").get<std::vector<int>>();
      ASSERT_EQ(within.size(), 10u);
      for (int& generation : within) {
        EXPECT_GT(generation, 0) << "not within 15 generations";
      }
      std::ranges::sort(within);
      EXPECT_LE(within[5], 12);
      double before = -1e300;
      for (const auto& best : generations->at("random")) {
        EXPECT_GE(best.at("fitness").get<double>(), before) << "the best is kept";
        before = best.at("fitness");
      }
    }
  }
}

TEST(SearchMetrics, MorePartsThanKernelsAreRefused) {
  EXPECT_FALSE(
      GenerationsOf("resnet50", SplitModelOfList(*MakeSimModel("nano", "resnet50")), 9999));
}

}  // namespace
}  // namespace lagoon::bench
