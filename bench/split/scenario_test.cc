#include "bench/split/scenario.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::array kAlone = {10.8, 13.2, 28.35, 67.5, 20.4};  // SPLIT, Table 1

TEST(SplitScenario, HasTheIntervalsAndLoadsOfTable2) {
  const int intervals[] = {160, 150, 140, 130, 120, 110};
  for (int number = 1; number <= kSplitScenarios; ++number) {
    const SplitCase one = *SplitScenario(number, SplitReading::kOneProcess);
    EXPECT_EQ(one.interval, milliseconds(intervals[number - 1]));
    EXPECT_EQ(one.name, "s" + std::to_string(number));
    EXPECT_EQ(one.suffix, "");
    EXPECT_EQ(SplitScenario(number, SplitReading::kPerModel)->suffix, ".overload");
  }
  const SplitCase low = *SplitScenario(1, SplitReading::kOneProcess);
  EXPECT_NEAR(LoadOf(low, kAlone), 0.175, 0.001);
  EXPECT_NEAR(LoadOf(*SplitScenario(6, SplitReading::kPerModel), kAlone), 1.275, 0.001);
  const SplitCase scaled = *SplitScenario(1, SplitReading::kOneProcess, 2.5);
  EXPECT_EQ(scaled.interval, milliseconds(400));
  for (const int number : {0, 7}) {
    EXPECT_THAT(SplitScenario(number, SplitReading::kOneProcess).error().message,
                HasSubstr("no scenario " + std::to_string(number)));
  }
}

TEST(SplitScenario, ALoadIsThePartOfTheTimeThatRequestsNeed) {
  const SplitCase heavy = SplitLoad(0.4, kAlone);
  EXPECT_EQ(heavy.name, "load40");
  EXPECT_NEAR(LoadOf(heavy, kAlone), 0.4, 1e-6);
}

TEST(SplitArrivals, OneProcessDrawsEachModelAsOften) {
  const SplitCase one = *SplitScenario(1, SplitReading::kOneProcess);
  const auto arrivals = MakeSplitArrivals(one, 5, 1000, 3);
  ASSERT_EQ(arrivals.size(), 1000u);
  EXPECT_EQ(arrivals.back().at, milliseconds(160'000));  // the mean gap is exact
  std::array<int, 5> counts{};
  for (const SplitArrival& arrival : arrivals) ++counts[arrival.model];
  for (const int count : counts) EXPECT_NEAR(count, 200, 45);
  EXPECT_TRUE(
      std::is_sorted(arrivals.begin(), arrivals.end(),
                     [](const SplitArrival& a, const SplitArrival& b) { return a.at < b.at; }));
}

// The gaps of a Poisson process: the standard deviation is the mean, and a share of 1/e is longer.
TEST(SplitArrivals, GapsAreExponential) {
  const SplitCase one = *SplitScenario(6, SplitReading::kOneProcess);
  const auto arrivals = MakeSplitArrivals(one, 5, 4000, 1);
  int longer = 0;
  Nanoseconds last{0};
  for (const SplitArrival& arrival : arrivals) {
    if (arrival.at - last > milliseconds(110)) ++longer;
    last = arrival.at;
  }
  EXPECT_NEAR(longer / 4000.0, 0.368, 0.03);
}

TEST(SplitArrivals, AProcessPerModelSendsFiveTimesAsMuch) {
  const SplitCase all = *SplitScenario(1, SplitReading::kPerModel);
  const auto arrivals = MakeSplitArrivals(all, 5, 1000, 3);
  EXPECT_EQ(arrivals.back().at, milliseconds(32'000));
  std::array<int, 5> counts{};
  for (const SplitArrival& arrival : arrivals) ++counts[arrival.model];
  for (const int count : counts) EXPECT_NEAR(count, 200, 45);
}

TEST(SplitArrivals, EqualSeedsGiveEqualGapsInEveryScenario) {
  const SplitCase one = *SplitScenario(1, SplitReading::kOneProcess);
  const SplitCase six = *SplitScenario(6, SplitReading::kOneProcess);
  const auto slow = MakeSplitArrivals(one, 5, 100, 7), fast = MakeSplitArrivals(six, 5, 100, 7);
  for (std::size_t i = 0; i < slow.size(); ++i) {
    EXPECT_EQ(slow[i].model, fast[i].model);
    EXPECT_NEAR(ToMilliseconds(slow[i].at) * 110 / 160, ToMilliseconds(fast[i].at), 1e-3);
  }
  EXPECT_NE(MakeSplitArrivals(one, 5, 100, 8)[0].at, slow[0].at);
}

TEST(SplitReadings, AnUnknownWordIsNamed) {
  EXPECT_EQ(*ParseSplitReading("per-model"), SplitReading::kPerModel);
  EXPECT_THAT(ParseSplitReading("both").error().message, HasSubstr("'both'"));
}

}  // namespace
}  // namespace lagoon::bench
