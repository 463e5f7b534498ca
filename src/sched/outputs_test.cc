// Copies of outputs are submitted right after a job's last kernels. These tests show what happens
// to the copies when the kernels are revoked or the job leaves, and which revoked kernels count as
// observations of cost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using testing::ChainPlan;
using ::testing::ElementsAre;
using testing::Request;
using Preemption = SchedulerConfig::Preemption;
using Streams = SchedulerConfig::Streams;

constexpr SchedulerConfig kReset = {.name = "reset", .preemption = Preemption::kReset};

class Outputs : public testing::DispatcherFixture {
 protected:
  // A chain whose output equals its input, as the kernels of the fake device compute nothing.
  static std::shared_ptr<LoadedPlan> Through(std::uint32_t ops, std::uint32_t blocks) {
    auto plan = std::const_pointer_cast<LoadedPlan>(ChainPlan(ops, blocks));
    plan->plan.outputs[0].range = plan->plan.inputs[0].range;
    return plan;
  }
  static bool Copied(const Request& request) { return std::ranges::equal(request.x, request.y); }
  std::size_t Count(const std::string& entry) const {
    return static_cast<std::size_t>(std::ranges::count(device_->log, entry));
  }
};

TEST_F(Outputs, AreSubmittedWithTheLastKernels) {
  Use(kReset);
  Request& request = Add();
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, Through(2, 1)), request));
  EXPECT_THAT(device_->log, ElementsAre("copy 1", "submit 1", "submit 1", "copy 1"));
  device_->quiet = true;  // the listener is not called any more
  EXPECT_EQ(device_->RunAll(), 4);
  EXPECT_TRUE(Copied(request));
  EXPECT_EQ(request.finished, 0);
  device_->quiet = false;
  device_->Advance(Nanoseconds(0));
  EXPECT_EQ(request.result.outcome, Outcome::kDone);
}

TEST_F(Outputs, TheClientLearnsWhenTheLastKernelIsAllThatIsLeft) {
  Use(kReset);
  Request& request = Add();
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, Through(3, 1)), request));
  for (int i = 0; i < 1 + 1; ++i) ASSERT_TRUE(device_->RunBlock());  // the input, a kernel
  EXPECT_EQ(request.almost, 0);
  ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(request.almost, 1);
  device_->RunAll();
  EXPECT_EQ(request.finished, 1);
  EXPECT_EQ(request.almost, 1);

  Request& one_kernel = Add();
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, Through(1, 1)), one_kernel));
  EXPECT_EQ(one_kernel.almost, 1);
}

TEST_F(Outputs, NothingIsAlmostFinishedBeforeTheLastJobOfARequest) {
  Use(kReset);
  Request& request = Add();
  const QueueId queue = AddQueue(JobClass::kBestEffort, Through(2, 1));
  JobSpec spec{queue, kNoDeadline, request.inputs, request.outputs, &request};
  spec.continues = true;
  ASSERT_TRUE(dispatcher_->Post(spec));
  device_->RunAll();
  EXPECT_EQ(request.finished, 1);
  EXPECT_EQ(request.almost, 0);
}

TEST_F(Outputs, WaitForKernelsThatWereRevokedAndAreCopiedOnce) {
  Use(kReset);
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, Through(2, 3));
  const QueueId real_time = AddQueue(JobClass::kRealTime, Through(1, 1));
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  for (int i = 0; i < 1 + 3 + 1; ++i) ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());
  ASSERT_TRUE(Post(real_time, urgent));
  device_->FinishBlock(false);
  while (urgent.finished == 0) ASSERT_TRUE(device_->RunBlock());
  EXPECT_FALSE(Copied(background));
  device_->RunAll();
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
  EXPECT_EQ(background.result.resumed_blocks, 1u);
  EXPECT_TRUE(Copied(background));
  EXPECT_EQ(Count("copy 1"), 3u);  // the input, and the output twice: the first copy was revoked
  EXPECT_EQ(device_->blocks_run, (2 + 2 * 3) + (2 + 1));  // each block once
}

TEST_F(Outputs, LeaveWithACancelledJobBeforeTheyHaveBegun) {
  Use(kReset);
  const QueueId queue = AddQueue(JobClass::kBestEffort, Through(2, 2));
  Request &cancelled = Add(), &next = Add();
  const JobId job = *Post(queue, cancelled);
  ASSERT_TRUE(Post(queue, next));
  ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(Count("copy 1"), 2u);
  dispatcher_->Cancel(job);
  EXPECT_EQ(cancelled.result.outcome, Outcome::kCancelled);
  device_->RunAll();
  EXPECT_FALSE(Copied(cancelled));
  EXPECT_EQ(next.result.outcome, Outcome::kDone);  // on the same instance
  EXPECT_TRUE(Copied(next));
}

TEST_F(Outputs, ThatHaveBegunAreCopiedWholeBeforeTheJobLeaves) {
  Use(kReset);
  const QueueId queue = AddQueue(JobClass::kBestEffort, Through(1, 1));
  Request& request = Add();
  const JobId job = *Post(queue, request);
  ASSERT_TRUE(device_->RunBlock() && device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());  // the copy of the output
  dispatcher_->Cancel(job);
  EXPECT_FALSE(device_->GuardsRaised());
  EXPECT_EQ(request.finished, 0);  // the client's memory is in use
  device_->FinishBlock(true);
  EXPECT_EQ(request.result.outcome, Outcome::kCancelled);
}

// In an ordered stream, a kernel that is submitted again would be behind the copy that waits for
// it.
TEST_F(Outputs, LeaveAnOrderedStreamWithTheKernelsThatTheyWaitFor) {
  Use({.name = "wait", .streams = Streams::kPerQueue, .preemption = Preemption::kWait});
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, Through(2, 2));
  const QueueId real_time = AddQueue(JobClass::kRealTime, Through(1, 1));
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  EXPECT_THAT(device_->log, ElementsAre("copy 1", "submit 1", "submit 1", "copy 1"));
  ASSERT_TRUE(device_->RunBlock() && device_->RunBlock());
  ASSERT_TRUE(Post(real_time, urgent));  // evicts the second kernel
  device_->RunAll();
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
  EXPECT_EQ(urgent.result.outcome, Outcome::kDone);
  EXPECT_TRUE(Copied(background) && Copied(urgent));
}

// More jobs than the device takes launches, revoked again and again: their outputs must leave room
// for the kernels that the outputs wait for.
TEST_F(Outputs, NeverTakeTheRoomOfTheKernelsThatTheyWaitFor) {
  for (const std::uint32_t launches : {2u, 3u, 8u}) {
    SCOPED_TRACE(launches);
    Use(kReset, launches);
    std::vector<Request*> requests;
    for (std::uint32_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(
          Post(AddQueue(JobClass::kBestEffort, Through(1, 2)), *requests.emplace_back(&Add())));
    }
    const QueueId real_time = AddQueue(JobClass::kRealTime, Through(1, 1));
    for (int i = 0; i < 30; ++i) {
      device_->RunBlock();
      ASSERT_TRUE(Post(real_time, *requests.emplace_back(&Add())));
      while (requests.back()->finished == 0) ASSERT_TRUE(device_->RunBlock());
    }
    device_->RunAll();
    for (const Request* request : requests) {
      ASSERT_EQ(request->result.outcome, Outcome::kDone);
      EXPECT_TRUE(Copied(*request));
    }
  }
}

// Padding is revoked when its room ends, so that its job's outputs are submitted only when all
// kernels are complete.
TEST_F(Outputs, AreNotSubmittedBehindPadding) {
  SchedulerConfig padding = kReset;
  padding.padding_kernels = 16;
  Use(padding, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(), 4);
  const auto urgent_plan = Through(1, 2);
  urgent_plan->plan.ops[0].cost = {std::chrono::microseconds(60), std::chrono::microseconds(60)};
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, Through(1, 2));
  const QueueId real_time = AddQueue(JobClass::kRealTime, urgent_plan);
  Request &urgent = Add(), &background = Add();
  ASSERT_TRUE(Post(real_time, urgent));
  ASSERT_TRUE(Post(best_effort, background));
  EXPECT_EQ(dispatcher_->Stats().padded_launches, 1u);
  EXPECT_EQ(Count("copy 2"), 1u);
  device_->RunAll();
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
  EXPECT_EQ(Count("copy 2"), 2u);
  EXPECT_TRUE(Copied(background) && Copied(urgent));
}

class Costs : public Outputs {
 protected:
  // A best-effort job with costs of its own, which the test can read.
  void PostBestEffort(const std::shared_ptr<const LoadedPlan>& plan, Request& request) {
    queue_ = AddQueue(JobClass::kBestEffort, plan);
    instance_ = *Instance::Create(plan, *device_);
    costs_ = std::make_unique<CostTable>(plan->plan);
    JobSpec spec;
    spec.queue = queue_;
    spec.inputs = request.inputs;
    spec.outputs = request.outputs;
    spec.client = &request;
    spec.instance = instance_.get();
    spec.costs = costs_.get();
    ASSERT_TRUE(dispatcher_->Post(spec));
  }
  QueueId queue_{};
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<CostTable> costs_;
};

TEST_F(Costs, FollowAKernelThatRanThroughButNotOneThatWasRevoked) {
  constexpr Nanoseconds kPause = std::chrono::milliseconds(10);
  for (const bool revoked : {false, true}) {
    SCOPED_TRACE(revoked);
    Use(kReset);
    Request &background = Add(), &urgent = Add();
    PostBestEffort(Through(1, 2), background);
    const QueueId real_time = AddQueue(JobClass::kRealTime, Through(1, 1));
    ASSERT_TRUE(device_->RunBlock() && device_->RunBlock());
    ASSERT_TRUE(device_->StartBlock());  // the last one
    if (revoked) {
      ASSERT_TRUE(Post(real_time, urgent));
      while (urgent.finished == 0) ASSERT_TRUE(device_->RunBlockBeside());
    }
    device_->Advance(kPause);
    device_->FinishBlock(true);  // completes the kernel in a launch that was revoked
    device_->RunAll();
    EXPECT_EQ(background.result.outcome, Outcome::kDone);
    EXPECT_EQ(costs_->kernel(0), revoked ? Nanoseconds(0) : kPause);
  }
}

// Under Preemption::kWait a kernel that has begun is not interrupted.
TEST_F(Costs, FollowAKernelThatRealTimeWorkHasWaitedFor) {
  constexpr Nanoseconds kTime = std::chrono::milliseconds(1);
  Use({.name = "wait", .streams = Streams::kPerQueue, .preemption = Preemption::kWait});
  Request &background = Add(), &urgent = Add();
  PostBestEffort(Through(1, 1), background);
  const QueueId real_time = AddQueue(JobClass::kRealTime, Through(1, 1));
  ASSERT_TRUE(device_->RunBlock() && device_->StartBlock());
  ASSERT_TRUE(Post(real_time, urgent));
  device_->Advance(kTime);
  device_->FinishBlock(true);
  device_->RunAll();
  EXPECT_EQ(costs_->kernel(0), kTime);
}

}  // namespace
}  // namespace lagoon
