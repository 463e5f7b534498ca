// Best-effort jobs that preempt one another (SchedulerConfig::preempt_by_rank).

#include <gtest/gtest.h>

#include <algorithm>

#include "policies/registry.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {
namespace {

class PreemptByRank : public DispatcherFixture {
 protected:
  void UseScheduler(std::string_view text) {
    Result<Scheduler> scheduler = MakeScheduler(text);
    ASSERT_TRUE(scheduler);
    Use(scheduler->config, 64, FakeDevice::Time::kVirtual, std::move(scheduler->policy));
  }
  // Jobs of `ops` kernels of `blocks` blocks; each kernel is expected to take 10 us.
  QueueId AddBestEffort(std::uint32_t ops, std::uint32_t blocks) {
    auto loaded = std::const_pointer_cast<LoadedPlan>(ChainPlan(ops, blocks));
    for (PlanOp& op : loaded->plan.ops) op.cost.kernel = std::chrono::microseconds(10);
    return AddQueue(JobClass::kBestEffort, std::move(loaded));
  }
  // Runs blocks until the request has ended; how many.
  int BlocksUntil(const Request& request) {
    int blocks = 0;
    while (request.finished == 0 && device_->RunBlock()) ++blocks;
    return blocks;
  }
};

TEST_F(PreemptByRank, BlocksOfAWorseJobLeaveAndResumeWhereTheyWere) {
  UseScheduler("lagoon:preempt_by_rank=1");
  const QueueId large = AddBestEffort(6, 4), small = AddBestEffort(2, 2);
  Request &worse = Add(), &better = Add();
  ASSERT_TRUE(Post(large, worse));
  for (int i = 0; i < 1 + 2; ++i) ASSERT_TRUE(device_->RunBlock());  // the input and two blocks
  ASSERT_TRUE(device_->StartBlock());

  ASSERT_TRUE(Post(small, better));
  EXPECT_TRUE(device_->GuardsRaised());
  device_->FinishBlock(false);
  EXPECT_EQ(BlocksUntil(better), 1 + 2 * 2 + 1);
  EXPECT_EQ(worse.finished, 0);
  device_->RunAll();

  EXPECT_EQ(better.result.revocations, 0u);
  EXPECT_EQ(worse.result.outcome, Outcome::kDone);
  EXPECT_EQ(worse.result.revocations, 1u);
  EXPECT_EQ(worse.result.resumed_blocks, 2u);
  EXPECT_EQ(device_->blocks_run, (2 + 6 * 4) + (2 + 2 * 2));
}

TEST_F(PreemptByRank, AWorseJobWaitsUntilAllKernelsOfTheBetterOneAreSubmitted) {
  for (const bool preempts : {true, false}) {
    SCOPED_TRACE(preempts);
    UseScheduler(preempts ? "lagoon:preempt_by_rank=1,depth=2" : "lagoon:depth=2");
    const QueueId small = AddBestEffort(4, 2), large = AddBestEffort(6, 4);
    Request &better = Add(), &worse = Add();
    ASSERT_TRUE(Post(small, better));
    ASSERT_TRUE(Post(large, worse));
    // Two kernels of the better job and its input; the other job as much.
    EXPECT_EQ(device_->launches(), preempts ? 3u : 6u);
    for (int i = 0; i < 1 + 2 * 2; ++i) ASSERT_TRUE(device_->RunBlock());
    EXPECT_EQ(better.finished, 0);
    if (preempts) {  // all is submitted: what the better job leaves idle is free
      EXPECT_GT(device_->launches(), 2u + 1);
    }
    device_->RunAll();
    EXPECT_EQ(better.result.revocations + worse.result.revocations, 0u);
  }
}

// A job's rank may be that of an earlier pick, when its client was behind. It must not hold the
// device then, as it is not the one that goes next.
TEST_F(PreemptByRank, JobsOfClientsThatWereBehindDoNotHoldTheDeviceForEver) {
  UseScheduler("lagoon:preempt_by_rank=1,depth=1,fairness_threshold=1");
  const QueueId large = AddBestEffort(8, 1), small = AddBestEffort(2, 1);
  std::vector<Request*> all = {&Add()};
  ASSERT_TRUE(Post(large, *all[0]));
  for (int i = 0; i < 6; ++i) {
    all.push_back(&Add());
    ASSERT_TRUE(Post(small, *all.back()));
    ASSERT_TRUE(device_->RunBlock());
  }
  device_->RunAll();
  for (const Request* request : all) EXPECT_EQ(request->result.outcome, Outcome::kDone);
}

TEST_F(PreemptByRank, RealTimeWorkStillPreemptsBoth) {
  UseScheduler("lagoon:preempt_by_rank=1");
  const QueueId large = AddBestEffort(6, 4), small = AddBestEffort(2, 2);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 1, 1);
  Request &worse = Add(), &better = Add(), &urgent = Add();
  ASSERT_TRUE(Post(large, worse));
  ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(Post(small, better));
  ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(Post(real_time, urgent));
  EXPECT_EQ(BlocksUntil(urgent), 3);
  EXPECT_EQ(better.finished, 0);
  BlocksUntil(better);
  EXPECT_EQ(worse.finished, 0);
  device_->RunAll();
  EXPECT_EQ(worse.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (2 + 6 * 4) + (2 + 2 * 2) + (2 + 1));
}

}  // namespace
}  // namespace lagoon::testing
