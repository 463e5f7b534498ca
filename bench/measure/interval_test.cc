#include "bench/measure/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

// Expects that the median is `median`, and that both bounds of the interval lie between `least` and
// `most`, one on each side of the median.
void ExpectInterval(const Interval& interval, double least, double median, double most) {
  EXPECT_DOUBLE_EQ(interval.median, median);
  EXPECT_GE(interval.low, least);
  EXPECT_LT(interval.low, median);
  EXPECT_GT(interval.high, median);
  EXPECT_LE(interval.high, most);
}

TEST(MedianInterval, IsTheMedianBetweenBoundsThatAreValues) {
  const std::vector<double> values{1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6};
  const Interval interval = MedianInterval(values, 1);
  ExpectInterval(interval, 1.0, 1.3, 1.6);
  EXPECT_EQ(interval.pairs, 7u);
}

TEST(MedianInterval, TakesTheMeanOfTheTwoMiddleValues) {
  EXPECT_DOUBLE_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(Median({3, 1, 2}), 2);
}

TEST(MedianInterval, IsDeterminedByItsSeed) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(1, 0.1);
  std::vector<double> values(25);
  for (double& value : values) value = normal(random);
  const Interval one = MedianInterval(values, 3), two = MedianInterval(values, 3);
  EXPECT_EQ(one.low, two.low);
  EXPECT_EQ(one.high, two.high);
}

TEST(MedianInterval, LeavesOutWhatIsNoNumber) {
  const std::vector<double> values{2, std::nan(""), 2, 2};
  EXPECT_EQ(MedianInterval(values, 1).pairs, 3u);
  EXPECT_EQ(MedianInterval({}, 1).pairs, 0u);
}

// Measures how often the interval contains the true median. Draws 400 samples of `count` values
// from a distribution whose median is `truth`. Returns the share of the samples whose interval
// contains `truth`.
template <typename Draw>
double Coverage(std::size_t count, double truth, Draw draw) {
  constexpr int kSamples = 400;
  std::mt19937 random(11);
  int held = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    std::vector<double> values(count);
    for (double& value : values) value = draw(random);
    const Interval interval = MedianInterval(values, static_cast<std::uint32_t>(sample));
    held += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  return static_cast<double>(held) / kSamples;
}

TEST(MedianInterval, HoldsTheMedianOfKnownDistributionsAboutAsOftenAsItSays) {
  std::normal_distribution<double> normal(1.05, 0.04);
  std::lognormal_distribution<double> skewed(std::log(1.05), 0.5);
  std::exponential_distribution<double> exponential(1);
  for (const std::size_t count : {kLeastPairs, std::size_t{10}, std::size_t{21}}) {
    for (const double coverage :
         {Coverage(count, 1.05, [&](std::mt19937& random) { return normal(random); }),
          Coverage(count, 1.05, [&](std::mt19937& random) { return skewed(random); }),
          Coverage(count, std::log(2),
                   [&](std::mt19937& random) { return exponential(random); })}) {
      EXPECT_GT(coverage, 0.90) << count << " values";
      EXPECT_LT(coverage, 0.995) << count << " values";
    }
  }
}

TEST(CombinedInterval, ResamplesEveryGroupByItself) {
  const auto product = [](std::span<const double> medians) { return medians[0] * medians[1]; };
  const std::vector<double> spread{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Interval interval = CombinedInterval({spread, std::vector<double>(6, 10.0)}, 1, product);
  ExpectInterval(interval, 10, 50, 90);
  EXPECT_EQ(interval.pairs, 6u);
}

TEST(Judge, HasThreeOutcomesAtEitherBound) {
  const Interval interval{1.05, 1.0, 1.1, 10};
  EXPECT_EQ(Judge(interval, Bound::kAtMost, 1.1), Verdict::kMet);
  EXPECT_EQ(Judge(interval, Bound::kAtMost, 1.07), Verdict::kUndecided);
  EXPECT_EQ(Judge(interval, Bound::kAtMost, 0.99), Verdict::kMissed);
  EXPECT_EQ(Judge(interval, Bound::kAtLeast, 1.0), Verdict::kMet);
  EXPECT_EQ(Judge(interval, Bound::kAtLeast, 1.02), Verdict::kUndecided);
  EXPECT_EQ(Judge(interval, Bound::kAtLeast, 1.2), Verdict::kMissed);
}

TEST(Judge, FewPairsDecideNothing) {
  EXPECT_EQ(Judge({1, 1, 1, kLeastPairs - 1}, Bound::kAtMost, 2), Verdict::kUndecided);
  EXPECT_EQ(Judge({1, 1, 1, kLeastPairs}, Bound::kAtMost, 2), Verdict::kMet);
}

}  // namespace
}  // namespace lagoon::bench
