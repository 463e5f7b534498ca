#include "bench/split/answers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lagoon::bench {
namespace {

const std::vector<SplitModelName> kModels = {{"a", true}, {"b", false}, {"c", true}};
const std::vector<double> kAlone = {10, 100, 20};

TEST(SplitAnswers, ViolationsAreCountedByHand) {
  const SplitAnswers answers = {{{10, 20, 21}, 0}, {{150, 250}, 1}, {{40}, 0}};
  // At 2: 21 of a, 250 and the refused one of b. 20 of a and 40 of c are exactly at the target.
  EXPECT_DOUBLE_EQ(ViolationRate(answers, kAlone, 2), 3.0 / 7);
  EXPECT_DOUBLE_EQ(ViolationRate(answers, kAlone, 1.5), 5.0 / 7);
  EXPECT_DOUBLE_EQ(ViolationRate(answers, kAlone, 20), 1.0 / 7);  // refused: late at every alpha
  EXPECT_DOUBLE_EQ(RefusedPart(answers), 1.0 / 7);
  EXPECT_TRUE(std::isnan(ViolationRate({{}, {}, {}}, kAlone, 2)));
}

TEST(SplitAnswers, JitterIsTheMeanOverShortModelsOfTheDeviation) {
  EXPECT_DOUBLE_EQ(StandardDeviation(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9}), 2);
  const SplitAnswers answers = {{{10, 14}, 0}, {{0, 1000}, 0}, {{20, 20, 32, 32}, 0}};
  EXPECT_DOUBLE_EQ(ShortJitterMs(answers, kModels), (2.0 + 6.0) / 2);  // b is long
  EXPECT_TRUE(std::isnan(ShortJitterMs({{}, {}, {}}, kModels)));
}

TEST(SplitAnswers, RatiosAreOverTheModelsOwnTime) {
  const SplitAnswers answers = {{{10, 25}, 2}, {{100}, 0}, {{}, 0}};
  EXPECT_EQ(ResponseRatios(answers, kAlone), (std::vector<double>{1, 2.5, 1}));
}

TEST(SplitAnswers, AreAddedByModel) {
  SplitAnswers all;
  AddAnswers({{{1}, 1}, {{}, 2}, {{3}, 0}}, all);
  AddAnswers({{{2}, 0}, {{5}, 1}, {{}, 0}}, all);
  EXPECT_EQ(all[0].latencies_ms, (std::vector<double>{1, 2}));
  EXPECT_EQ(all[1].refused, 3u);
  EXPECT_EQ(all[2].latencies_ms.size(), 1u);
}

}  // namespace
}  // namespace lagoon::bench
