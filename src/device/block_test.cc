#include "device/block.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace lagoon {
namespace {

struct Record {
  explicit Record(std::uint32_t blocks)
      : words(Progress::WordsFor(blocks)), progress(blocks, words) {
    progress.Reset();
  }
  std::vector<std::atomic<std::uint64_t>> words;
  Progress progress;
};

class ProgressOfBlocks : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(ProgressOfBlocks, GivesOutEveryTileOnce) {
  Record record(GetParam());
  for (int use = 0; use < 2; ++use) {
    std::set<std::uint32_t> tiles;
    while (const auto tile = record.progress.Claim()) {
      EXPECT_LT(*tile, GetParam());
      EXPECT_TRUE(tiles.insert(*tile).second);
    }
    EXPECT_EQ(tiles.size(), GetParam());
    EXPECT_FALSE(record.progress.HasUnclaimed());
    for (std::uint32_t i = 0; i < GetParam(); ++i) {
      EXPECT_FALSE(record.progress.Complete());
      EXPECT_EQ(record.progress.Commit(), i + 1 == GetParam());
    }
    EXPECT_TRUE(record.progress.Complete());
    record.progress.Reset();
  }
}

TEST_P(ProgressOfBlocks, GivesOutAnUnclaimedTileAgain) {
  Record record(GetParam());
  while (record.progress.Claim()) {
  }
  for (std::uint32_t tile = 0; tile < GetParam(); ++tile) {
    record.progress.Unclaim(tile);
    EXPECT_TRUE(record.progress.HasUnclaimed());
    EXPECT_EQ(record.progress.Claim(), tile);
  }
  EXPECT_EQ(record.progress.done(), 0u);
}

TEST_P(ProgressOfBlocks, SearchesFromAnyTileOnAndThenFromTheFirst) {
  Record record(GetParam());
  for (std::uint32_t from = 0; from < GetParam(); ++from) {
    for (std::uint32_t i = 0; i < GetParam(); ++i) {
      ASSERT_EQ(record.progress.Claim(from), (from + i) % GetParam());
    }
    EXPECT_EQ(record.progress.Claim(from), std::nullopt);
    record.progress.Reset();
  }
}

TEST_P(ProgressOfBlocks, EachUnitHasItsOwnPart) {
  const Record record(GetParam());
  for (const std::uint32_t units : {1U, 2U, 3U, 8U}) {
    EXPECT_EQ(record.progress.FirstOf(0, units), 0U);
    for (std::uint32_t unit = 1; unit < units; ++unit) {
      const std::uint32_t first = record.progress.FirstOf(unit, units);
      EXPECT_LT(first, GetParam());
      EXPECT_NEAR(first - record.progress.FirstOf(unit - 1, units), 1.0 * GetParam() / units, 1);
    }
    EXPECT_EQ(record.progress.FirstOf(units, units), 0U);  // of another share
  }
}

INSTANTIATE_TEST_SUITE_P(AroundWords, ProgressOfBlocks,
                         ::testing::Values(1, 2, 63, 64, 65, 128, 200));

TEST(Guard, IsRaisedByLaterWordsOnlyAcrossTheWrap) {
  std::atomic<std::uint32_t> word{0xffffffff};
  const Guard guard{&word, 0xffffffff};
  EXPECT_FALSE(guard.Raised());
  word.store(0);  // one later
  EXPECT_TRUE(guard.Raised());
  word.store(0x7ffffffe);
  EXPECT_TRUE(guard.Raised());
  word.store(0xfffffffe);  // one earlier
  EXPECT_FALSE(guard.Raised());
  EXPECT_FALSE(Guard{}.Raised());
}

class RunBlocksTest : public ::testing::Test {
 protected:
  template <typename Run>
  Leave RunWith(Run run, std::optional<std::uint32_t> claimed = std::nullopt) {
    return RunBlocks(
        record_.progress, std::span<const Dep>(deps_), std::span<const Guard>(guards_), run,
        [this] { return yield_after_ == 0 || yield_after_-- == 0; }, claimed);
  }

  Record record_{4};
  Record before_{1};
  std::vector<Dep> deps_;
  std::atomic<std::uint32_t> word_{0};
  std::vector<Guard> guards_{{&word_, 0}};
  int yield_after_ = 100;
};

TEST_F(RunBlocksTest, RunsTheClaimedTileFirstAndTellsOfTheLastCommit) {
  std::vector<std::uint32_t> ran;
  const auto run = [&](std::uint32_t tile) {
    ran.push_back(tile);
    return true;
  };
  record_.progress.Claim();
  const auto claimed = record_.progress.Claim();
  record_.progress.Unclaim(0);
  EXPECT_EQ(RunWith(run, claimed), Leave::kCompleted);
  EXPECT_EQ(ran, (std::vector<std::uint32_t>{1, 0, 2, 3}));
  EXPECT_EQ(RunWith(run), Leave::kExhausted);
}

TEST_F(RunBlocksTest, LeavesBeforeAClaimWhenAGuardIsRaised) {
  const auto run = [&](std::uint32_t) {
    word_.store(1);
    return true;
  };
  EXPECT_EQ(RunWith(run), Leave::kRevoked);
  EXPECT_EQ(record_.progress.done(), 1u);
}

TEST_F(RunBlocksTest, ABlockThatLeavesGivesItsTileBackAndDoesNotCount) {
  EXPECT_EQ(RunWith([](std::uint32_t) { return false; }), Leave::kRevoked);
  EXPECT_EQ(record_.progress.done(), 0u);
  EXPECT_EQ(record_.progress.Claim(), 0u);
}

TEST_F(RunBlocksTest, WaitsForItsDependenciesButLeavesForAGuardFirst) {
  deps_ = {{&before_.progress, 1}};
  const auto run = [](std::uint32_t) { return true; };
  EXPECT_EQ(RunWith(run), Leave::kBlocked);
  word_.store(1);
  EXPECT_EQ(RunWith(run), Leave::kRevoked);
  word_.store(0);
  before_.progress.Commit();
  EXPECT_EQ(RunWith(run), Leave::kCompleted);
}

TEST_F(RunBlocksTest, YieldsBetweenBlocksHoldingNoTile) {
  yield_after_ = 2;
  EXPECT_EQ(RunWith([](std::uint32_t) { return true; }), Leave::kYielded);
  EXPECT_EQ(record_.progress.done(), 2u);
  EXPECT_EQ(record_.progress.Claim(), 2u);
}

TEST_F(RunBlocksTest, AGuardBeforeTheStartDoesNotStopAStartedKernel) {
  guards_[0].only_before_start = true;
  word_.store(1);
  EXPECT_TRUE(Revoked(std::span<const Guard>(guards_), /*started=*/false));
  EXPECT_FALSE(Revoked(std::span<const Guard>(guards_), /*started=*/true));
  EXPECT_EQ(RunWith([](std::uint32_t) { return true; }), Leave::kCompleted);
}

TEST(BlockContext, LeavesForAnyGuardThatHoldsWhileRunningAndForTheProbe) {
  struct Third : CheckProbe {
    bool OnCheck() override { return ++checks == 3; }
    int checks = 0;
  } probe;
  std::atomic<std::uint32_t> word{1};
  std::array<Guard, 2> guards{Guard{}, Guard{&word, 1}};
  BlockContext context(guards, {}, &probe);
  EXPECT_FALSE(context.ShouldLeave());
  EXPECT_FALSE(context.ShouldLeave());
  EXPECT_TRUE(context.ShouldLeave());
  word.store(2);
  EXPECT_TRUE(context.ShouldLeave());
  guards[1].only_before_start = true;
  EXPECT_FALSE(context.ShouldLeave());
}

}  // namespace
}  // namespace lagoon
