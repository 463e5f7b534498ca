// How many kernels the mechanism submits when the scheduler limits the blocks on the device, and
// how many units each may take in the background.

#include <gtest/gtest.h>

#include <algorithm>

#include "sched/job_launches.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {
namespace {

using namespace std::chrono_literals;

// Posts twelve jobs, each of one kernel of two blocks, on a device of two units. Returns how many
// of them are submitted at once.
class Filling : public DispatcherFixture {
 protected:
  std::size_t Submitted(std::optional<std::uint32_t> extra_blocks,
                        const std::vector<std::uint32_t>& occupancies) {
    Use({.name = "filled", .depth = 1, .extra_blocks = extra_blocks}, 64,
        FakeDevice::Time::kVirtual, std::make_unique<ClassFirst>(), /*units=*/2);
    for (std::size_t i = 0; i < 12; ++i) {
      auto plan = std::const_pointer_cast<LoadedPlan>(ChainPlan(1, 2));
      plan->plan.ops[0].occupancy = occupancies[i % occupancies.size()];
      EXPECT_TRUE(Post(AddQueue(JobClass::kBestEffort, plan), Add()));
    }
    const auto submit = [](const std::string& entry) { return entry.starts_with("submit"); };
    return static_cast<std::size_t>(std::ranges::count_if(device_->log, submit));
  }
};

TEST_F(Filling, SubmitsWhatFitsByOccupancyAndAFewBlocksMore) {
  EXPECT_EQ(Submitted(1, {1}), 2u);
  EXPECT_EQ(Submitted(1, {4}), 5u);  // eight blocks fit, the ninth is beyond them
  EXPECT_EQ(Submitted(3, {4}), 6u);  // ten are not yet three beyond
  EXPECT_EQ(Submitted(9, {4}), 9u);  // sixteen are eight beyond
  EXPECT_EQ(Submitted(std::nullopt, {1}), 12u);
}

TEST_F(Filling, WithNothingAheadNoBlockWaits) {
  EXPECT_EQ(Submitted(0, {1}), 1u);
  EXPECT_EQ(Submitted(0, {2}), 2u);
  EXPECT_EQ(Submitted(0, {4}), 4u);
}

TEST_F(Filling, CountsKernelsOfDifferentOccupancyByWhatTheyTakeOfAUnit) {
  // Each pair of jobs takes 2 + 1/4 units. After the second job the 2 units are full. After the
  // fourth, 4.5 units are needed, so that 2.5 / 4.5 of the eight blocks are beyond the units.
  EXPECT_EQ(Submitted(1, {1, 8}), 3u);
  EXPECT_EQ(Submitted(4, {1, 8}), 4u);
  EXPECT_EQ(Submitted(5, {1, 8}), 5u);
}

// Two jobs of one kernel of eight blocks, each of which takes a unit.
class BlockEvents : public DispatcherFixture {
 protected:
  void Open(std::uint32_t units, std::uint32_t extra_blocks, std::uint32_t block_events = 2) {
    Use({.name = "told", .depth = 1, .extra_blocks = extra_blocks, .block_events = block_events},
        64, FakeDevice::Time::kVirtual, std::make_unique<ClassFirst>(), units);
    device_->TellBlocks();
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(Post(AddQueue(JobClass::kBestEffort, ChainPlan(1, 8)), Add()));
    }
    EXPECT_TRUE(device_->RunBlock());  // the copy of the first job's input
  }
  void Run(int blocks) {
    while (blocks-- > 0) ASSERT_TRUE(device_->RunBlock());
  }
  std::ptrdiff_t submitted() const {
    const auto submit = [](const std::string& entry) { return entry.starts_with("submit"); };
    return std::ranges::count_if(device_->log, submit);
  }
};

TEST_F(BlockEvents, TheNextKernelGoesWhenBlocksLeaveAUnitIdle) {
  Open(/*units=*/4, /*extra_blocks=*/0);
  Run(5);
  EXPECT_EQ(submitted(), 1) << "four blocks are done, as far as the device has told";
  Run(1);
  EXPECT_EQ(submitted(), 2) << "two of eight are not done";
}

TEST_F(BlockEvents, OrWhenFewBlocksHaveNotBegun) {
  Open(/*units=*/2, /*extra_blocks=*/3);
  Run(5);
  EXPECT_EQ(submitted(), 1);
  ASSERT_TRUE(device_->StartBlock());
  EXPECT_EQ(submitted(), 2) << "two of eight have not begun";
  device_->FinishBlock(true);
}

TEST_F(BlockEvents, ThatAreLostOrComeTwiceDoNoHarm) {
  for (const int tells : {0, 2}) {
    Open(/*units=*/4, /*extra_blocks=*/0);
    device_->tells = tells;
    Run(7);
    EXPECT_EQ(submitted(), tells == 0 ? 1 : 2);
    device_->RunAll();
    EXPECT_EQ(submitted(), 2);
    EXPECT_EQ(device_->launches(), 0u);
  }
}

TEST_F(BlockEvents, AreNotAskedForWithoutTheParameter) {
  Open(/*units=*/4, /*extra_blocks=*/0, /*block_events=*/0);
  Run(7);
  EXPECT_EQ(submitted(), 1);
  Run(1);
  EXPECT_EQ(submitted(), 2);
}

constexpr std::uint32_t kHalf = kWholeUnit / 2;

TEST(UnitLedger, IsAsFullAsItsScarcestResource) {
  UnitLedger ledger;
  JobLaunch threads{.blocks = 3, .need = {.blocks = kWholeUnit / 16, .threads = kHalf}};
  JobLaunch shared{.blocks = 3, .need = {.blocks = kWholeUnit / 16, .shared_bytes = kHalf}};
  ledger.Add(threads);
  EXPECT_NEAR(ledger.Fill(2), 0.75, 1e-4);
  ledger.Add(shared);
  EXPECT_NEAR(ledger.Fill(2), 0.75, 1e-4) << "they take different resources";
  JobLaunch registers{.blocks = 1, .need = {.threads = kHalf, .registers = kWholeUnit}};
  ledger.Add(registers);
  EXPECT_NEAR(ledger.Fill(2), 1, 1e-4);
  ledger.Remove(threads);
  EXPECT_NEAR(ledger.Fill(2), 0.75, 1e-4);
}

TEST(UnitLedger, IsFullWhereAUnitHoldsThreeBlocks) {
  UnitLedger ledger;
  JobLaunch launch{.blocks = 240, .need = {.blocks = kWholeUnit / 3}};
  ledger.Add(launch);
  EXPECT_GE(ledger.Fill(80), 1);
  ledger.Update(launch, 1, 1);
  EXPECT_LT(ledger.Fill(80), 1);
}

TEST(UnitLedger, TakesBlocksOffAsTheyEnd) {
  UnitLedger ledger;
  JobLaunch launch{.blocks = 8, .need = {.blocks = kWholeUnit}};
  ledger.Add(launch);
  EXPECT_EQ(ledger.waiting(), 8u);
  ledger.Update(launch, 6, 2);
  EXPECT_EQ(ledger.waiting(), 2u);
  EXPECT_NEAR(ledger.Fill(4), 1.5, 1e-4);
  ledger.Remove(launch);
  EXPECT_EQ(ledger.waiting(), 0u);
  EXPECT_NEAR(ledger.Fill(4), 0, 1e-4);
  ledger.Remove(launch);
  ledger.Update(launch, 8, 8);
  EXPECT_NEAR(ledger.Fill(4), 0, 1e-4) << "it is settled";
}

TEST(UnitLedger, CountsOnlyGrowWhateverTheDeviceTells) {
  UnitLedger ledger;
  JobLaunch launch{.blocks = 8, .need = {.blocks = kWholeUnit}};
  ledger.Add(launch);
  ledger.Update(launch, 4, 4);
  ledger.Update(launch, 2, 1);  // late
  ledger.Update(launch, 4, 4);  // again
  EXPECT_EQ(ledger.waiting(), 4u);
  EXPECT_NEAR(ledger.Fill(4), 1, 1e-4);
  ledger.Update(launch, 0, 6);  // more done than begun
  EXPECT_EQ(ledger.waiting(), 2u);
  ledger.Update(launch, ~0u, ~0u);  // more than there are
  EXPECT_EQ(ledger.waiting(), 0u);
  EXPECT_NEAR(ledger.Fill(4), 0, 1e-4);
}

class Background : public DispatcherTest {
 protected:
  void Open(const SchedulerConfig& config) {
    Use(config, 64, FakeDevice::Time::kVirtual, std::make_unique<ClassFirst>(), /*units=*/8);
    device_->HaveBackground();
  }
  void PostBestEffort() {
    ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, /*ops=*/1, /*blocks=*/9), Add()));
  }
};

TEST_F(Background, IsForBestEffortWorkWhereARealTimeModelMayPreemptIt) {
  Open(kReset);
  PostBestEffort();
  EXPECT_FALSE(device_->background()) << "nothing is real-time";
  const QueueId urgent = AddQueue(JobClass::kRealTime, 1, 1);
  PostBestEffort();
  EXPECT_TRUE(device_->background());
  ASSERT_TRUE(Post(urgent, Add()));
  EXPECT_FALSE(device_->background());
  device_->RunAll();
  ASSERT_TRUE(dispatcher_->RemoveQueue(urgent));
  PostBestEffort();
  EXPECT_FALSE(device_->background());

  Open({.name = "wait", .preemption = SchedulerConfig::Preemption::kWait});
  AddQueue(JobClass::kRealTime, 1, 1);
  PostBestEffort();
  EXPECT_FALSE(device_->background()) << "what has begun ends before real-time work";
}

// A job that leaves is answered when its running blocks have left; a switch waits for all jobs.
TEST_F(Background, HurriesWhileSomethingWaitsForIt) {
  Open(kReset);
  AddQueue(JobClass::kRealTime, 1, 1);
  Request& left = Add();
  const Result<JobId> job = Post(AddQueue(JobClass::kBestEffort, 1, 2), left);
  ASSERT_TRUE(job && device_->RunBlock() && device_->StartBlock());
  EXPECT_FALSE(device_->hurry());
  dispatcher_->Cancel(*job);
  EXPECT_TRUE(device_->hurry());
  EXPECT_EQ(left.finished, 0);
  device_->FinishBlock(false);
  device_->RunAll();
  EXPECT_EQ(left.finished, 1);
  EXPECT_FALSE(device_->hurry());

  PostBestEffort();
  dispatcher_->Switch({.name = "new"}, std::make_unique<ClassFirst>(), [](const Status&) {});
  EXPECT_TRUE(device_->hurry());
  device_->RunAll();
  EXPECT_FALSE(device_->hurry());
}

TEST_F(Background, TakesAJobThatRunsWhenNothingOfTheJobIsInFlight) {
  Use(kReset, /*max_launches=*/6, FakeDevice::Time::kVirtual, std::make_unique<ClassFirst>(), 8);
  device_->HaveBackground();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, /*ops=*/10, /*blocks=*/1), Add()));
  }
  ASSERT_EQ(device_->launches(), 6u) << "a copy and four kernels, and the copy of the other job";
  AddQueue(JobClass::kRealTime, 1, 1);
  device_->RunAll();
  EXPECT_TRUE(device_->background());
  EXPECT_EQ(device_->mixed, 0);
}

// A launch that is spared for one block leaves kernels behind it in the background, which wait for
// the rest of its blocks.
TEST_F(Background, EndsAJobWhoseLaunchesWaitForItself) {
  Open(kReset);
  const QueueId urgent = AddQueue(JobClass::kRealTime, 1, 1);
  Request& request = Add();
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, /*ops=*/2, /*blocks=*/2), request));
  ASSERT_TRUE(device_->RunBlock()) << "its copy";
  const auto revoke = [&] {
    ASSERT_TRUE(device_->StartBlock());
    Request& other = Add();
    ASSERT_TRUE(Post(urgent, other));
    device_->FinishBlock(false);
    while (other.finished == 0) ASSERT_TRUE(device_->RunBlock());
  };
  for (int i = 0; i < 8; ++i) revoke();
  ASSERT_EQ(dispatcher_->Stats().revocations, 8u);
  ASSERT_TRUE(device_->background());
  ASSERT_EQ(device_->launches(), 3u) << "a kernel that is spared, and what waits for it";
  ASSERT_TRUE(dispatcher_->RemoveQueue(urgent));
  device_->RunAll();
  EXPECT_EQ(request.finished, 1);
  EXPECT_EQ(device_->mixed, 0);
}

// A slice is of no use on threads that the system starves.
TEST_F(Background, IsNotForSlices) {
  SchedulerConfig config = kReset;
  config.best_effort_minimum = 0.5;
  Open(config);
  const QueueId urgent = AddQueue(JobClass::kRealTime, /*ops=*/20, /*blocks=*/1);
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, /*ops=*/2, /*blocks=*/4), Add()));
  ASSERT_TRUE(device_->RunBlock() && device_->StartBlock()) << "its copy, and a block";
  EXPECT_TRUE(device_->background());
  ASSERT_TRUE(Post(urgent, Add()));
  device_->Advance(20ms);
  EXPECT_EQ(dispatcher_->Stats().slices, 1u);
  EXPECT_TRUE(device_->hurry());
  const std::uint64_t launches = dispatcher_->Stats().launches;
  ASSERT_TRUE(device_->RunBlockBeside());
  EXPECT_EQ(dispatcher_->Stats().launches, launches) << "a block in the background has not left";
  device_->FinishBlock(false);
  EXPECT_FALSE(device_->background());
  EXPECT_GT(dispatcher_->Stats().launches, launches);

  while (device_->launches() > 2) ASSERT_TRUE(device_->RunBlock());  // the real-time kernels
  device_->Advance(10ms);
  EXPECT_FALSE(device_->hurry()) << "the slice is over";
  EXPECT_EQ(dispatcher_->Stats().revocations, 2u);
  device_->RunAll();
  EXPECT_TRUE(device_->background());
  EXPECT_EQ(dispatcher_->Stats().slices, 1u);
}

// Five jobs on eight units: with a unit each, three units would be idle.
TEST_F(Background, JobsDivideTheUnits) {
  Open(kReset);
  AddQueue(JobClass::kRealTime, 1, 1);
  for (const std::uint32_t units : {0u, 4u, 3u, 2u, 2u}) {
    PostBestEffort();
    EXPECT_EQ(device_->max_claimants(), units);
  }
  device_->RunAll();
  PostBestEffort();
  EXPECT_EQ(device_->max_claimants(), 0u);
}

}  // namespace
}  // namespace lagoon::testing
