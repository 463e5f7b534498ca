// Clients that `lagoon` raises because they are far behind an equal share (Policy::IsBehind).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "policies/registry.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {
namespace {

class Behind : public DispatcherFixture {
 protected:
  void UseScheduler(std::string_view text) {
    Result<Scheduler> scheduler = MakeScheduler(text);
    ASSERT_TRUE(scheduler);
    Use(scheduler->config, 64, FakeDevice::Time::kVirtual, std::move(scheduler->policy));
  }
  // Jobs of `ops` kernels of one block; each kernel is expected to take 10 us.
  QueueId AddBestEffort(std::uint32_t ops) {
    auto loaded = std::const_pointer_cast<LoadedPlan>(ChainPlan(ops, 1));
    for (PlanOp& op : loaded->plan.ops) op.cost.kernel = std::chrono::microseconds(10);
    return AddQueue(JobClass::kBestEffort, std::move(loaded));
  }
  // Runs blocks until `request` has ended, at most `most`. Meanwhile each queue of `busy` has two
  // jobs, so that the queue is never without one. Returns the number of blocks.
  int RunBeside(const Request& request, const std::vector<QueueId>& busy, int most) {
    std::vector<std::pair<QueueId, Request*>> posted;
    for (const QueueId queue : busy) {
      for (int i = 0; i < 2; ++i) posted.emplace_back(queue, nullptr);
    }
    int blocks = 0;
    for (; blocks < most && request.finished == 0; ++blocks) {
      for (auto& [queue, last] : posted) {
        if (last != nullptr && last->finished == 0) continue;
        last = &Add();
        EXPECT_TRUE(Post(queue, *last));
      }
      EXPECT_TRUE(device_->RunBlock());
    }
    return blocks;
  }
};

// The short jobs have the better ranks and never leave a gap. With three clients, the long job is
// 20 kernels behind after 60 kernels of the others. From then on it gets every third kernel: after
// 60 + 3 * 40 kernels it has ended. A short job of two kernels also has two copies, so that these
// are at most 2 * 180 blocks, and some more that the device had before.
TEST_F(Behind, AJobThatTheDeviceHasWithAWorseRankIsRaised) {
  UseScheduler("lagoon:fairness_threshold=20");
  const QueueId large = AddBestEffort(40);
  const std::vector<QueueId> small = {AddBestEffort(2), AddBestEffort(2)};
  Request& starved = Add();
  ASSERT_TRUE(Post(large, starved));
  const int blocks = RunBeside(starved, small, 5000);
  EXPECT_EQ(starved.finished, 1);
  EXPECT_GT(blocks, 60) << "the threshold was not reached, so that the test shows nothing";
  EXPECT_LE(blocks, 2 * 180 + 40);
  EXPECT_GE(starved.result.revocations, 1u);
  // One revocation brings `depth` = 4 kernels to the front.
  EXPECT_LE(starved.result.revocations, 40u / 2);
}

TEST_F(Behind, NothingIsRaisedBelowTheThreshold) {
  UseScheduler("lagoon:fairness_threshold=1000");
  const QueueId large = AddBestEffort(40);
  const std::vector<QueueId> small = {AddBestEffort(2), AddBestEffort(2)};
  Request& starved = Add();
  ASSERT_TRUE(Post(large, starved));
  EXPECT_EQ(RunBeside(starved, small, 500), 500);
  EXPECT_EQ(starved.finished, 0);
  EXPECT_EQ(dispatcher_->Stats().revocations, 0u);
}

TEST_F(Behind, KernelsInFrontAreNotRevokedAgain) {
  UseScheduler("lagoon:fairness_threshold=1");
  const QueueId first = AddBestEffort(12), second = AddBestEffort(30);
  Request &one = Add(), &other = Add();
  ASSERT_TRUE(Post(first, one));
  ASSERT_TRUE(Post(second, other));
  // Both have four kernels in the device. A kernel of one of two clients moves each by a half, so
  // that each is soon behind, and raised. At most every second kernel brings the other one behind.
  device_->RunAll();
  EXPECT_EQ(one.result.outcome, Outcome::kDone);
  EXPECT_EQ(other.result.outcome, Outcome::kDone);
  EXPECT_LE(dispatcher_->Stats().revocations, (12u + 30u) / 2);
  EXPECT_EQ(device_->blocks_run, (2 + 12) + (2 + 30)) << "a revoked kernel runs once";
}

// Real-time work goes first, also before a client that is behind.
TEST_F(Behind, RealTimeWorkGoesBeforeAClientThatIsBehind) {
  UseScheduler("lagoon:fairness_threshold=5");
  const QueueId large = AddBestEffort(40);
  const std::vector<QueueId> small = {AddBestEffort(2), AddBestEffort(2)};
  const QueueId real_time = AddQueue(JobClass::kRealTime, 3, 1);
  Request &starved = Add(), &urgent = Add();
  ASSERT_TRUE(Post(large, starved));
  EXPECT_EQ(RunBeside(starved, small, 60), 60);
  EXPECT_GT(dispatcher_->Stats().revocations, 0u) << "it is behind";
  ASSERT_TRUE(Post(real_time, urgent));
  for (int i = 0; i < 3 + 2; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(urgent.finished, 1);
}

}  // namespace
}  // namespace lagoon::testing
