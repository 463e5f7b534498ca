#include "device/cpu/launch_table.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace lagoon {
namespace {

bool Nothing(const void*, std::uint32_t, BlockContext&) { return true; }

struct Record {
  explicit Record(std::uint32_t blocks)
      : words(Progress::WordsFor(blocks)), progress(blocks, words) {
    progress.Reset();
  }
  std::vector<std::atomic<std::uint64_t>> words;
  Progress progress;
};

class LaunchTableTest : public ::testing::Test {
 protected:
  using Assignment = LaunchTable::Assignment;

  SubmitResult Add(int id, Record& record, Rank rank = 0, StreamId stream = kUnordered) {
    launch_.progress = &record.progress;
    const SubmitResult result = table_.Add(launch_.As(LaunchId(id), stream, rank), Nothing);
    if (result == SubmitResult::kOk) table_.SettleNewest();
    return result;
  }

  // Commits the tile as a worker does.
  bool Commit(const Assignment& work) {
    const bool last = work.progress->Commit();
    return table_.Finish(work, last ? Leave::kCompleted : Leave::kYielded, Now());
  }

  std::string Events() {
    std::array<DeviceEvent, 64> events;
    std::string text;
    const std::size_t count = table_.events().Pop(events);
    for (std::size_t i = 0; i < count; ++i) {
      constexpr const char* kNames[] = {"placed", "progress", "complete", "retired", "lost"};
      if (i > 0) text += ' ';
      text += kNames[static_cast<int>(events[i].kind)] + std::to_string(Raw(events[i].launch));
    }
    return text;
  }

  GuardWords guards_{2};
  const GuardId guard_ = guards_.Create("test").value();
  const DeviceInfo info_ = [] {
    DeviceInfo info;
    info.units = 4;
    info.share_granule = 1;
    info.max_shares = 4;
    return info;
  }();
  Shares shares_{info_};
  LaunchTable table_{{.launches = 4, .streams = 2, .events = 16, .units = 4}, guards_, shares_};
  Launch launch_;
};

TEST_F(LaunchTableTest, ReportsPlacedCompleteAndRetiredInThisOrder) {
  Record record(2);
  ASSERT_EQ(Add(1, record), SubmitResult::kOk);
  const auto first = table_.Pick(0);
  const auto second = table_.Pick(0);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->tile, 0u);
  EXPECT_EQ(second->tile, 1u);
  EXPECT_FALSE(table_.Pick(0));
  EXPECT_EQ(Events(), "placed1");
  Commit(*first);
  EXPECT_FALSE(table_.TakeNews());
  EXPECT_TRUE(Commit(*second));
  EXPECT_TRUE(table_.TakeNews());
  EXPECT_EQ(Events(), "complete1 retired1");
  EXPECT_EQ(table_.live(), 0u);
}

TEST_F(LaunchTableTest, ACompleteLaunchRetiresOnlyWhenItsLastWorkerHasLeft) {
  Record record(1);
  Add(1, record);
  const auto work = table_.Pick(0);
  work->progress->Commit();
  table_.SettleAll();
  EXPECT_EQ(Events(), "placed1") << "its worker has not left";
  table_.Finish(*work, Leave::kCompleted, Now());
  EXPECT_EQ(Events(), "complete1 retired1");
}

TEST_F(LaunchTableTest, PrefersSmallRanksThenEarlierSubmission) {
  std::array<Record, 4> records{Record(1), Record(1), Record(1), Record(1)};
  Add(1, records[0], 5);
  Add(2, records[1], 3);
  Add(3, records[2], 5);
  Add(4, records[3], 3);
  EXPECT_EQ(table_.best_rank(), 3u);
  for (const std::size_t expected : {1, 3, 0, 2}) {
    EXPECT_EQ(table_.Pick(0)->progress, &records[expected].progress);
  }
}

TEST_F(LaunchTableTest, AStreamMovesOnWhenItsFirstLaunchIsCompleteBeforeItHasRetired) {
  Record first(2), second(1);
  Add(1, first, 0, StreamId{1});
  Add(2, second, 0, StreamId{1});
  const auto a = table_.Pick(0);
  const auto b = table_.Pick(0);
  EXPECT_FALSE(table_.Pick(0)) << "the second launch of the stream waits";
  a->progress->Commit();
  b->progress->Commit();
  table_.Finish(*b, Leave::kCompleted, Now());
  EXPECT_EQ(Events(), "placed1 complete1");
  const auto next = table_.Pick(0);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->progress, &second.progress);
  table_.Finish(*a, Leave::kExhausted, Now());
  EXPECT_EQ(Events(), "placed2 retired1");
}

TEST_F(LaunchTableTest, SettlingRevokesAWholeStreamAndTheNextLaunchIsFirst) {
  std::array<Record, 4> records{Record(1), Record(1), Record(1), Record(1)};
  launch_.guards[0] = {&guards_.word(guard_), 0};
  for (int i = 0; i < 3; ++i) Add(i + 1, records[static_cast<std::size_t>(i)], 0, StreamId{1});
  launch_.guards[0] = {&guards_.word(guard_), 1};
  Add(4, records[3], 0, StreamId{1});
  guards_.word(guard_).store(1);
  table_.SettleAll();
  EXPECT_EQ(Events(), "retired1 retired2 retired3");
  EXPECT_EQ(table_.Pick(0)->progress, &records[3].progress);
}

TEST_F(LaunchTableTest, ALaunchRetiresWithTheStolenTimeOfAllItsWorkers) {
  Record record(2);
  Add(1, record);
  auto first = table_.Pick(0), second = table_.Pick(1);
  first->stolen = std::chrono::microseconds(70);
  second->stolen = std::chrono::microseconds(30);
  Commit(*first);
  Commit(*second);
  std::array<DeviceEvent, 8> events;
  const std::size_t count = table_.events().Pop(events);
  ASSERT_EQ(events[count - 1].kind, DeviceEvent::Kind::kRetired);
  EXPECT_EQ(events[count - 1].stolen, std::chrono::microseconds(100));
}

TEST_F(LaunchTableTest, ARevokedLaunchRetiresWhenItsWorkerLeaves) {
  Record record(2);
  launch_.guards[0] = {&guards_.word(guard_), 0};
  Add(1, record);
  const auto work = table_.Pick(0);
  guards_.word(guard_).store(1);
  table_.SettleAll();
  EXPECT_EQ(Events(), "placed1");
  EXPECT_FALSE(table_.Pick(0));
  record.progress.Unclaim(work->tile);
  EXPECT_TRUE(table_.Finish(*work, Leave::kRevoked, Now()));
  EXPECT_EQ(Events(), "retired1");
}

TEST_F(LaunchTableTest, ARelaunchRetiresWhenTheOldBlockCompletesItsRecord) {
  Record record(1);
  launch_.guards[0] = {&guards_.word(guard_), 0};
  Add(1, record);
  const auto old = table_.Pick(0);
  guards_.word(guard_).store(1);
  launch_.guards[0].limit = 1;
  Add(2, record);
  EXPECT_FALSE(table_.Pick(0));
  EXPECT_EQ(table_.live(), 2u);
  Commit(*old);
  EXPECT_EQ(Events(), "placed1 complete1 retired1 retired2");
}

TEST_F(LaunchTableTest, RefusesWhenSlotsOrCreditsRunOut) {
  std::vector<std::unique_ptr<Record>> records;
  const auto fill = [&] {
    int added = 0;
    for (records.push_back(std::make_unique<Record>(1));
         Add(added, *records.back()) == SubmitResult::kOk;
         records.push_back(std::make_unique<Record>(1))) {
      ++added;
    }
    return added;
  };
  EXPECT_EQ(fill(), 4);  // slots
  while (const auto work = table_.Pick(0)) Commit(*work);
  EXPECT_EQ(table_.events().size(), 12u);
  EXPECT_EQ(fill(), 1);  // 16 events: 12 unpolled, 3 for this launch
  Events();
  EXPECT_EQ(fill(), 3);
}

TEST_F(LaunchTableTest, CreditsOfEventsThatNeverComeAreGivenBack) {
  launch_.guards[0] = {&guards_.word(guard_), 0};
  guards_.word(guard_).store(1);
  std::vector<std::unique_ptr<Record>> records;
  for (int i = 0; i < 12; ++i) {
    records.push_back(std::make_unique<Record>(1));
    ASSERT_EQ(Add(i, *records.back()), SubmitResult::kOk) << i;  // revoked at once: one event
  }
  EXPECT_EQ(table_.events().size(), 12u);
}

TEST_F(LaunchTableTest, CountsTheLaunchesThatWatchPartialCounts) {
  Record on(3), record(1), other(1);
  const Dep partial{&on.progress, 2};
  launch_.deps = {&partial, 1};
  Add(1, record);
  EXPECT_EQ(table_.watchers(), 1u);
  launch_.deps = {};
  launch_.guards[1] = {&on.progress.done_word(), 1};
  Add(2, other);
  EXPECT_EQ(table_.watchers(), 2u);
  EXPECT_TRUE(table_.HasRunnable());
  on.progress.Commit();
  on.progress.Commit();
  table_.SettleAll();
  EXPECT_EQ(Events(), "retired2");
  EXPECT_EQ(table_.watchers(), 1u);
  EXPECT_EQ(table_.Pick(0)->progress, &record.progress);
}

TEST_F(LaunchTableTest, AWorkerThatLeavesWithoutTheLastTileSettlesForThoseWhoWatchItsCount) {
  Record counting(3), guarded(1);
  launch_.guards[0] = {&guards_.word(guard_), 0};
  Add(1, counting);
  launch_.guards[0] = {&counting.progress.done_word(), 0};
  Add(2, guarded);
  const auto work = table_.Pick(0);
  guards_.word(guard_).store(1);
  table_.SettleAll();
  work->progress->Commit();
  EXPECT_TRUE(table_.Finish(*work, Leave::kRevoked, Now()));
  EXPECT_EQ(Events(), "placed1 retired1 retired2");
}

TEST_F(LaunchTableTest, HasBetterSeesOnlyRunnableLaunchesOfSmallerRank) {
  Record blocked(1), running(2), better(1), on(1);
  const Dep dep{&on.progress, 1};
  Add(1, running, 5);
  launch_.deps = {&dep, 1};
  Add(2, blocked, 1);
  EXPECT_FALSE(table_.HasBetter({.rank = 5}, 0));
  launch_.deps = {};
  Add(3, better, 5);
  EXPECT_FALSE(table_.HasBetter({.rank = 5}, 0)) << "an equal rank does not take over";
  on.progress.Commit();
  EXPECT_TRUE(table_.HasBetter({.rank = 5}, 0));
}

TEST_F(LaunchTableTest, AThreadThatHelpsTakesLaunchesOfItsLevelAndBetterOnes) {
  Record best_effort(2), real_time(1);
  launch_.help.level = 1;
  Add(1, best_effort, 1);
  EXPECT_FALSE(table_.Pick(0, 0));
  launch_.help.level = 0;
  Add(2, real_time, 5);
  EXPECT_TRUE(table_.HasBetter({.rank = 5}, 0));
  EXPECT_FALSE(table_.HasBetter({.rank = 5}, 0, 0)) << "the better launch is not for the thread";
  EXPECT_EQ(table_.Pick(0, 0)->progress, &real_time.progress);
  EXPECT_FALSE(table_.Pick(0, 0));
  EXPECT_EQ(table_.Pick(0, 1)->progress, &best_effort.progress);
  EXPECT_EQ(table_.Pick(0)->progress, &best_effort.progress);
}

TEST_F(LaunchTableTest, ALevelHoldsBeyondSharesToo) {
  Record visitor(1);
  launch_.share = shares_.Create("left", {0, 1}).value();
  launch_.beyond_share = true;
  launch_.help.level = 1;
  Add(1, visitor);
  EXPECT_FALSE(table_.Pick(1, 0));
  EXPECT_TRUE(table_.Pick(1, 1));
}

TEST_F(LaunchTableTest, NoUnitIsWokenForALaunchWhoseHelperIsAlone) {
  Record record(3);
  launch_.help = {.helper = table_.Lend(2), .alone = true};
  Add(1, record);
  EXPECT_TRUE(table_.NewestMayRun());
  EXPECT_EQ(table_.WantedByNewest(3), 0u);
  EXPECT_FALSE(table_.HasRunnable());
  table_.TakeBack(2);
  EXPECT_EQ(table_.WantedByNewest(3), 3u) << "the helper has gone";
  EXPECT_TRUE(table_.HasRunnable());
  const BorrowedUnit later = table_.Lend(2);
  EXPECT_EQ(LaunchTable::UnitOf(later), 2u);
  EXPECT_EQ(table_.WantedByNewest(3), 3u) << "another thread has the unit";
  EXPECT_TRUE(table_.HasRunnable());
}

TEST_F(LaunchTableTest, OneUnitLessIsWokenForALaunchWithAHelper) {
  Record record(3);
  launch_.help = {.helper = table_.Lend(0)};
  Add(1, record);
  EXPECT_EQ(table_.WantedByNewest(3), 2u);
  EXPECT_TRUE(table_.HasRunnable());
}

TEST_F(LaunchTableTest, AHelperOutsideOfTheShareIsNone) {
  const ShareId share = shares_.Create("mine", {1, 2}).value();
  Record bound(2), visitor(2);
  launch_.help = {.helper = table_.Lend(1), .alone = true};
  launch_.share = share;
  Add(1, bound);
  EXPECT_FALSE(table_.HasRunnable());
  shares_.Move(share, {2, 2});
  EXPECT_TRUE(table_.HasRunnable());
  EXPECT_EQ(table_.WantedByNewest(2), 2u);
  launch_.beyond_share = true;
  Add(2, visitor);
  EXPECT_EQ(table_.WantedByNewest(2), 0u);
}

TEST_F(LaunchTableTest, OnlyUnitsOfItsSharePickALaunch) {
  const ShareId share = shares_.Create("mine", {1, 2}).value();
  Record bound(4), free(4);
  EXPECT_FALSE(table_.any_bound());
  launch_.share = share;
  Add(1, bound, 1);
  EXPECT_TRUE(table_.any_bound());
  launch_.share = kAllUnits;
  Add(2, free, 5);
  EXPECT_EQ(table_.Pick(0)->progress, &free.progress);
  EXPECT_EQ(table_.Pick(1)->progress, &bound.progress);
  EXPECT_EQ(table_.Pick(2)->progress, &bound.progress);
  EXPECT_EQ(table_.Pick(3)->progress, &free.progress);
  EXPECT_TRUE(table_.HasBetter({.rank = 5}, 2));
  EXPECT_FALSE(table_.HasBetter({.rank = 5}, 3)) << "the better launch is not for this unit";
  shares_.Move(share, {3, 1});
  EXPECT_EQ(table_.Pick(2)->progress, &free.progress);
  EXPECT_TRUE(table_.HasBetter({.rank = 5}, 3));
  EXPECT_EQ(table_.Pick(3)->progress, &bound.progress);
}

TEST_F(LaunchTableTest, ALaunchGoesBeyondItsShareWhereNoOwnLaunchCanStart) {
  const ShareId left = shares_.Create("left", {0, 1}).value();
  const ShareId right = shares_.Create("right", {1, 1}).value();
  Record visitor(4), other(4), own(1);
  launch_.share = left;
  Add(1, other, 1);  // stays within its share, although it has a better rank
  launch_.beyond_share = true;
  Add(2, visitor, 5);
  const auto work = table_.Pick(1);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->progress, &visitor.progress);
  EXPECT_FALSE(table_.HasBetter(*work, 1));
  launch_.share = right;
  launch_.beyond_share = false;
  Add(3, own, 9);
  EXPECT_TRUE(table_.HasBetter(*work, 1)) << "the unit is of the other share, whatever the ranks";
  EXPECT_EQ(table_.Pick(1)->progress, &own.progress);
  EXPECT_EQ(table_.Pick(1)->progress, &visitor.progress) << "the other one has no block to start";
}

TEST_F(LaunchTableTest, OfTwoLaunchesBeyondTheirSharesTheBetterRankGoesFirst) {
  Record worse(2), better(2);
  launch_.beyond_share = true;
  launch_.share = shares_.Create("left", {0, 1}).value();
  Add(1, worse, 5);
  const auto work = table_.Pick(2);
  ASSERT_TRUE(work);
  launch_.share = shares_.Create("right", {1, 1}).value();
  Add(2, better, 3);
  EXPECT_TRUE(table_.HasBetter(*work, 2));
  EXPECT_EQ(table_.Pick(2)->progress, &better.progress);
}

TEST_F(LaunchTableTest, NoLaunchIsBoundAfterTheLastOfAShareHasRetired) {
  Record record(1);
  launch_.share = shares_.Create("mine", {1, 2}).value();
  Add(1, record, 1);
  Commit(*table_.Pick(1));
  EXPECT_FALSE(table_.any_bound());
}

TEST_F(LaunchTableTest, ATransferClaimsChunksAndIgnoresItsStreamsGuards) {
  std::vector<std::byte> from(kCopyChunkBytes + 1, std::byte{3}), to(from.size());
  Record record(CopyBlocks(from.size()));
  ASSERT_EQ(table_.Add({.id = LaunchId{7},
                        .to = to.data(),
                        .from = from.data(),
                        .bytes = from.size(),
                        .progress = &record.progress}),
            SubmitResult::kOk);
  BlockContext context({}, {});
  while (const auto work = table_.Pick(0)) {
    EXPECT_TRUE(work->body(work->args, work->tile, context));
    Commit(*work);
  }
  EXPECT_EQ(to, from);
  EXPECT_EQ(Events(), "placed7 complete7 retired7");
}

}  // namespace
}  // namespace lagoon
