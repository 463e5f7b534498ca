// What becomes of kernels that are revoked after they have begun (Restart).

#include <gmock/gmock.h>

#include "sched/padding.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using testing::Request;

class RestartTest : public testing::DispatcherTest {
 protected:
  // A best-effort chain of kernels of one block, of which the last one is of this kind.
  void Use(std::uint32_t ops, Restart restart, std::uint32_t group_first,
           std::uint32_t blocks = 1) {
    DispatcherFixture::Use(kReset);
    auto plan = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(ops, blocks));
    plan->plan.ops.back().restart = restart;
    plan->plan.ops.back().group_first = group_first;
    background_ = AddQueue(JobClass::kBestEffort, plan);
    urgent_ = AddQueue(JobClass::kRealTime, 1, 1);
  }
  std::uint64_t reexecuted() const { return dispatcher_->Stats().reexecuted; }

  QueueId background_{}, urgent_{};
};

// REEF, Figure 9: K3 is killed, and K1 to K3 are its smallest idempotent group.
TEST_F(RestartTest, AKernelThatIsInterruptedRunsItsGroupAgain) {
  Use(4, Restart::kByGroup, 1);
  Request& job = Add();
  Request& other = Add();
  ASSERT_TRUE(Post(background_, job));
  for (int i = 0; i < 1 + 3; ++i) ASSERT_TRUE(device_->RunBlock());  // input, K0 to K2
  ASSERT_TRUE(device_->StartBlock());
  ASSERT_TRUE(Post(urgent_, other));
  ASSERT_TRUE(device_->GuardsRaised());
  device_->FinishBlock(false);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
  EXPECT_EQ(other.result.outcome, Outcome::kDone);
  EXPECT_EQ(reexecuted(), 3u);
  EXPECT_EQ(device_->blocks_run, (1 + 3 + 3 + 1) + (1 + 1 + 1));
}

TEST_F(RestartTest, BlocksThatAreDoneRunAgainTooAndOnlyWhenAllHaveLeft) {
  Use(2, Restart::kByGroup, 0, /*blocks=*/3);
  Request& job = Add();
  Request& other = Add();
  ASSERT_TRUE(Post(background_, job));
  for (int i = 0; i < 1 + 3 + 1; ++i) ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());  // the second block of K1
  ASSERT_TRUE(Post(urgent_, other));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device_->RunBlockBeside());
  EXPECT_EQ(other.finished, 1);
  EXPECT_FALSE(device_->RunBlockBeside()) << "the group began while a block of it was running";
  EXPECT_EQ(reexecuted(), 0u);
  device_->FinishBlock(true);  // past its last check: it does not count all the same
  EXPECT_EQ(reexecuted(), 2u);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 3 + 2) + (1 + 1 + 1) + (3 + 3 + 1));
}

// K1 and K2 run side by side, and both restart with K0.
TEST_F(RestartTest, AGroupWaitsUntilNoKernelOfItIsInFlight) {
  DispatcherFixture::Use(kReset);
  auto plan = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(3, 1));
  plan->plan.ops[2].deps = {0};
  plan->plan.ops[2].blocks = 2;
  for (const int op : {1, 2}) plan->plan.ops[op].restart = Restart::kByGroup;
  background_ = AddQueue(JobClass::kBestEffort, plan);
  urgent_ = AddQueue(JobClass::kRealTime, 1, 1);
  Request& job = Add();
  Request& other = Add();
  ASSERT_TRUE(Post(background_, job));
  for (int i = 0; i < 1 + 1; ++i) ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());      // K1
  ASSERT_TRUE(device_->RunBlockBeside());  // half of K2
  ASSERT_TRUE(Post(urgent_, other));       // K2 retires at once
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device_->RunBlockBeside());
  EXPECT_EQ(other.finished, 1);
  EXPECT_EQ(reexecuted(), 0u);
  EXPECT_FALSE(device_->RunBlockBeside());
  device_->FinishBlock(false);
  EXPECT_EQ(reexecuted(), 3u);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 1 + 1) + (1 + 1 + 1) + (1 + 1 + 2 + 1));
}

TEST_F(RestartTest, AKernelThatHasNotBegunIsOnlySubmittedAgain) {
  Use(2, Restart::kByGroup, 0);
  Request& job = Add();
  Request& other = Add();
  ASSERT_TRUE(Post(background_, job));
  ASSERT_TRUE(device_->RunBlock());    // the input
  ASSERT_TRUE(device_->StartBlock());  // K0, which restarts by claims
  ASSERT_TRUE(Post(urgent_, other));
  device_->FinishBlock(false);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
  EXPECT_EQ(reexecuted(), 0u);
}

TEST_F(RestartTest, AKernelThatNeverRestartsEndsBesideRealTimeWork) {
  Use(1, Restart::kNever, 0, /*blocks=*/2);
  Request& job = Add();
  Request& other = Add();
  ASSERT_TRUE(Post(background_, job));
  ASSERT_TRUE(device_->RunBlock());  // the input
  ASSERT_TRUE(device_->StartBlock());
  ASSERT_TRUE(Post(urgent_, other));
  EXPECT_FALSE(device_->GuardsRaised());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device_->RunBlockBeside());
  EXPECT_EQ(other.finished, 1) << "real-time work waited";
  device_->FinishBlock(true);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (1 + 2 + 1) + (1 + 1 + 1));  // no tile twice
}

TEST_F(RestartTest, AGroupThatIsInterruptedAgainAndAgainRunsToItsEnd) {
  Use(1, Restart::kByGroup, 0);
  Request& job = Add();
  ASSERT_TRUE(Post(background_, job));
  ASSERT_TRUE(device_->RunBlock());  // the input
  int times = 0;
  for (;; ++times) {
    ASSERT_LT(times, 20);
    ASSERT_TRUE(device_->StartBlock());
    ASSERT_TRUE(Post(urgent_, Add()));
    if (!device_->GuardsRaised()) break;
    device_->FinishBlock(false);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(device_->RunBlock());  // the real-time job
  }
  EXPECT_EQ(times, 8);
  device_->FinishBlock(true);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
}

// Padding leaves with its room. By then the real-time job may be over, and the padding's own job
// may have a kernel in the device that waits for the padding.
TEST_F(RestartTest, PaddingThatLeavesWithItsRoomRestartsThoughItsJobWentOn) {
  SchedulerConfig reef = kReset;
  reef.padding_kernels = 1;
  DispatcherFixture::Use(reef, 64, testing::FakeDevice::Time::kVirtual,
                         std::make_unique<testing::ClassFirst>(), /*units=*/4);
  const auto with_costs = [](std::initializer_list<microseconds> costs, Restart restart) {
    auto plan = std::const_pointer_cast<LoadedPlan>(
        testing::ChainPlan(static_cast<std::uint32_t>(costs.size()), 1));
    for (std::size_t op = 0; op < costs.size(); ++op) {
      plan->plan.ops[op].cost = {costs.begin()[op], costs.begin()[op]};
    }
    plan->plan.ops[0].restart = restart;
    return plan;
  };
  urgent_ = AddQueue(JobClass::kRealTime, with_costs({microseconds(100)}, Restart::kByClaims));
  background_ = AddQueue(JobClass::kBestEffort,
                         with_costs({microseconds(20), microseconds(500)}, Restart::kByGroup));
  Request& job = Add();
  Request& other = Add();
  ASSERT_TRUE(Post(urgent_, other));
  ASSERT_TRUE(device_->RunBlock());  // its input
  ASSERT_TRUE(Post(background_, job));
  device_->PreferLast(true);
  ASSERT_TRUE(device_->RunBlock());  // its input
  ASSERT_TRUE(device_->StartBlock());
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  device_->PreferLast(false);
  while (other.finished == 0) ASSERT_TRUE(device_->RunBlockBeside());
  ASSERT_TRUE(device_->GuardsRaised()) << "the room has not ended";
  device_->FinishBlock(false);
  device_->RunAll();
  EXPECT_EQ(job.result.outcome, Outcome::kDone);
  EXPECT_EQ(reexecuted(), 1u);
}

TEST(RestartInARoom, WhatWouldLoseItsBlocksMustEndThere) {
  PlanOp op;
  op.blocks = 12;
  op.cost.block = microseconds(20);
  const PaddingRoom room{.units = 4, .time = microseconds(50), .occupancy = 1, .until = nullptr};
  EXPECT_TRUE(VersionBeside(op, {}, room));
  for (const Restart restart : {Restart::kByGroup, Restart::kNever}) {
    op.restart = restart;
    op.blocks = 12;  // 60 us on four units
    EXPECT_FALSE(VersionBeside(op, {}, room));
    op.blocks = 8;
    EXPECT_TRUE(VersionBeside(op, {}, room));
  }
}

}  // namespace
}  // namespace lagoon
