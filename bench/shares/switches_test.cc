#include "bench/shares/switches.h"

#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

TimePoint At(int us) { return TimePoint() + std::chrono::microseconds(us); }

ShareBlock Block(std::uint32_t unit, int begin, int end) { return {unit, 1, At(begin), At(end)}; }

TEST(TimesOfSwitches, AUnitOfBothSharesThatRunsABlockLeavesNoIdleTime) {
  const SwitchTimes times =
      TimesOfSwitches({Block(0, 0, 10), Block(1, 0, 10), Block(1, 10, 20)}, {{1, {1, 1}, At(5)}});
  EXPECT_EQ(times.idle_us, std::vector<double>{0});
  EXPECT_EQ(times.gap_us, std::vector<double>{0});
}

TEST(TimesOfSwitches, IdleIsFromTheMoveToTheFirstBlockOnANewUnit) {
  // Unit 0 goes on until 10, unit 2 of the new share begins at 13: no unit runs a block for 3 us.
  const SwitchTimes times =
      TimesOfSwitches({Block(0, 0, 10), Block(2, 13, 20)}, {{1, {2, 1}, At(5)}});
  EXPECT_EQ(times.idle_us, std::vector<double>{8});
  EXPECT_EQ(times.gap_us, std::vector<double>{3});
}

TEST(TimesOfSwitches, TheGapOfAMoveIsBeyondTheUsualOne) {
  const SwitchTimes times = TimesOfSwitches(
      {Block(0, 0, 10), Block(0, 12, 20), Block(0, 22, 30), Block(0, 32, 40), Block(2, 47, 50)},
      {{1, {2, 1}, At(35)}});
  EXPECT_EQ(times.gap_us, std::vector<double>{5});  // 7 us, 2 of them usual
}

TEST(TimesOfSwitches, OtherSharesDoNotCount) {
  SwitchTimes times = TimesOfSwitches({Block(0, 0, 10), {2, 2, At(4), At(30)}, Block(2, 30, 40)},
                                      {{1, {2, 1}, At(5)}});
  EXPECT_EQ(times.idle_us, std::vector<double>{25});
  times = TimesOfSwitches({{2, 2, At(4), At(30)}}, {{1, {2, 1}, At(5)}});
  EXPECT_TRUE(times.idle_us.empty());
  EXPECT_EQ(times.without_block, 1u);
}

TEST(TimesOfSwitches, AMoveWithoutABlockBeforeTheNextMoveIsCounted) {
  const SwitchTimes times = TimesOfSwitches({Block(0, 0, 10), Block(2, 30, 40)},
                                            {{1, {2, 1}, At(5)}, {1, {2, 2}, At(20)}});
  EXPECT_EQ(times.without_block, 1u);
  EXPECT_EQ(times.idle_us, std::vector<double>{10});
}

}  // namespace
}  // namespace lagoon::bench
