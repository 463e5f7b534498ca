// Padding that waits on the device for a room that begins later (SchedulerConfig::padding_ahead).

#include <gtest/gtest.h>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using testing::Request;

// A chain whose op i has blocks[i] blocks, each of which takes the time `block`.
std::shared_ptr<LoadedPlan> BlockChain(const std::vector<std::uint32_t>& blocks,
                                       Nanoseconds block = microseconds(50)) {
  const auto ops = static_cast<std::uint32_t>(blocks.size());
  auto loaded = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(ops, 1));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    loaded->plan.ops[i].blocks = blocks[i];
    loaded->plan.ops[i].cost = {block * blocks[i], block};
  }
  return loaded;
}

class AheadTest : public testing::DispatcherFixture {
 protected:
  // Destroys the dispatcher before the requests, which are destroyed before the fixture's members.
  ~AheadTest() override { dispatcher_.reset(); }

  void UseAhead() {
    constexpr SchedulerConfig kAhead = {.name = "ahead",
                                        .preemption = SchedulerConfig::Preemption::kReset,
                                        .padding_kernels = 1,
                                        .padding_ahead = true};
    Use(kAhead, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/4);
  }
  // Posts both requests, and runs their inputs. Then the device prefers best-effort blocks.
  void PostBoth(const std::shared_ptr<const LoadedPlan>& real_time,
                const std::shared_ptr<const LoadedPlan>& best_effort) {
    const QueueId low = AddQueue(JobClass::kBestEffort, best_effort);
    const QueueId high = AddQueue(JobClass::kRealTime, real_time);
    urgent_id_ = *Post(high, urgent_);
    ASSERT_TRUE(device_->RunBlock());
    ASSERT_TRUE(Post(low, background_));
    device_->PreferLast(true);
    ASSERT_TRUE(device_->RunBlock());
  }
  // Runs as many blocks, and returns how many of them were of the real-time kernel `op`.
  std::uint32_t RunBlocks(int blocks, std::size_t op) {
    const Progress& progress = instances_.back()->progress(op);
    const std::uint32_t before = progress.done();
    for (int i = 0; i < blocks; ++i) EXPECT_TRUE(device_->RunBlock());
    return progress.done() - before;
  }
  JobId urgent_id_{};
  Request urgent_, background_;
};

TEST_F(AheadTest, PaddingBeginsWithTheTailOfAWideKernel) {
  UseAhead();
  PostBoth(BlockChain({6}), BlockChain({3}, microseconds(20)));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(device_->max_claimants(), 2u);
  EXPECT_EQ(RunBlocks(4, 0), 4u);
  EXPECT_EQ(RunBlocks(4, 0), 0u);  // the best-effort kernel and its output
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  device_->RunAll();
  EXPECT_EQ(urgent_.result.outcome, Outcome::kDone);
}

TEST_F(AheadTest, ABlockThatIsAsLongAsTheTailIsNotPadded) {  // Rule 1
  UseAhead();
  PostBoth(BlockChain({6}), BlockChain({1}, microseconds(50)));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 0u);
}

TEST_F(AheadTest, PaddingWaitsOnTheDeviceForTheKernelThatItPads) {  // REEF 5.1: they begin together
  UseAhead();
  PostBoth(BlockChain({8, 1}), BlockChain({3}, microseconds(20)));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(RunBlocks(8, 0), 8u);
  EXPECT_EQ(RunBlocks(3, 1), 0u);
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(urgent_.finished, 0);
  device_->RunAll();
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
}

TEST_F(AheadTest, PaddingLeavesWhenItsRealTimeJobIsGivenUp) {
  UseAhead();
  PostBoth(BlockChain({6}), BlockChain({1}, microseconds(20)));
  ASSERT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(RunBlocks(1, 0), 1u);
  dispatcher_->Cancel(urgent_id_);  // its kernel is never complete
  device_->RunAll();
  EXPECT_EQ(urgent_.result.outcome, Outcome::kCancelled);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
}

// As Launch::background says of dependencies.
TEST_F(AheadTest, WhatWaitsForARealTimeKernelIsNotOfTheBackground) {
  UseAhead();
  device_->HaveBackground();
  PostBoth(BlockChain({6}), BlockChain({1}, microseconds(20)));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_FALSE(device_->background());
  device_->RunAll();
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
  Request& later = Add();
  ASSERT_TRUE(Post(QueueId{0}, later));
  EXPECT_TRUE(device_->background());
  device_->RunAll();
  EXPECT_EQ(later.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->mixed, 0);
}

TEST_F(AheadTest, ALaunchWithManyDependenciesDoesNotWaitForARoom) {
  auto many = BlockChain(std::vector<std::uint32_t>(9, 1), microseconds(20));
  for (std::uint32_t op = 0; op < 8; ++op) many->plan.ops[op].deps.clear();
  many->plan.ops[8].deps = {0, 1, 2, 3, 4, 5, 6, 7};
  UseAhead();
  const QueueId low = AddQueue(JobClass::kBestEffort, many);
  const QueueId high = AddQueue(JobClass::kRealTime, BlockChain({6}));
  ASSERT_TRUE(Post(low, background_));
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(device_->RunBlock());  // its input and eight kernels
  ASSERT_TRUE(Post(high, urgent_));
  device_->RunAll();
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 0u);
  EXPECT_EQ(urgent_.result.outcome, Outcome::kDone);
  EXPECT_EQ(background_.result.outcome, Outcome::kDone);
}

}  // namespace
}  // namespace lagoon
