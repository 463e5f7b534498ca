// Jobs that do not run to their end: refused, superseded, expired, cancelled, failed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using testing::DispatcherTest;
using testing::FakeDevice;
using ::testing::HasSubstr;
using testing::Request;

TEST_F(DispatcherTest, AFullQueueRefusesAtOnceAndNamesItself) {
  UseReset();
  QueueOptions options;
  options.max_pending = 2;
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 1, options);
  Request &running = Add(), &first = Add(), &second = Add(), &third = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, first));
  ASSERT_TRUE(Post(queue, second));
  const Result<JobId> refused = Post(queue, third);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("'chain' is full: 2"));
  device_->RunAll();
  EXPECT_EQ(second.finished, 1);
  EXPECT_EQ(third.finished, 0);
  EXPECT_TRUE(Post(queue, third));
  device_->RunAll();
}

TEST_F(DispatcherTest, NewestWinsDropsTheOldestWaitingJob) {
  UseReset();
  QueueOptions options;
  options.max_pending = 1;
  options.overflow = Overflow::kNewestWins;
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1, options);
  Request &running = Add(), &old = Add(), &newest = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, old));
  ASSERT_TRUE(Post(queue, newest));
  EXPECT_EQ(old.result.outcome, Outcome::kSuperseded);
  device_->RunAll();
  EXPECT_EQ(running.result.outcome, Outcome::kDone);
  EXPECT_EQ(newest.result.outcome, Outcome::kDone);
}

/// A plan without kernels, with one input and one output of no bytes.
std::shared_ptr<LoadedPlan> EmptyPlan() {
  const auto plan = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(1, 1));
  plan->plan.ops.clear();
  plan->plan.arena_bytes = 0;
  for (auto* tensors : {&plan->plan.inputs, &plan->plan.outputs}) {
    tensors->front().spec.dims = {0};
    tensors->front().range = {Region::kArena, 0, 0};
    tensors->front().ops.clear();
  }
  return plan;
}

TEST_F(DispatcherTest, AJobWithoutKernelsAndCopiesIsCompleteWhenItIsPosted) {
  UseReset();
  const auto plan = EmptyPlan();
  plan->plan.inputs.clear();
  QueueOptions options;
  options.max_pending = 1;
  const QueueId queue = AddQueue(JobClass::kBestEffort, plan, options);
  void* const not_wanted[] = {nullptr};
  for (int i = 0; i < 3; ++i) {
    Request& request = Add();
    ASSERT_TRUE(dispatcher_->Post({queue, kNoDeadline, {}, not_wanted, &request}));
    EXPECT_EQ(request.finished, 1);
    EXPECT_EQ(request.result.outcome, Outcome::kDone);
    EXPECT_EQ(request.result.started, request.result.finished);
  }
  EXPECT_EQ(dispatcher_->Pending(queue), 0u);
  Request& late = Add();
  ASSERT_TRUE(dispatcher_->Post({queue, device_->Now(), {}, not_wanted, &late}));
  EXPECT_EQ(late.result.outcome, Outcome::kExpired);
  EXPECT_TRUE(dispatcher_->RemoveQueue(queue));
}

TEST_F(DispatcherTest, AJobWhoseOnlyCopiesAreEmptyEndsWithThem) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, EmptyPlan());
  for (const bool wanted : {true, false}) {
    Request& request = Add();
    void* const outputs[] = {wanted ? request.y : nullptr};
    ASSERT_TRUE(dispatcher_->Post({queue, kNoDeadline, request.inputs, outputs, &request}));
    EXPECT_EQ(device_->RunAll(), wanted ? 2 : 1);
    EXPECT_EQ(request.result.outcome, Outcome::kDone);
  }
}

/// Jobs of 50 us, of which one runs.
class Overload : public DispatcherTest {
 protected:
  void SetUp() override {
    UseReset();
    const auto plan = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(5, 1));
    for (PlanOp& op : plan->plan.ops) op.cost.kernel = std::chrono::microseconds(10);
    queue_ = AddQueue(JobClass::kRealTime, plan);
    ASSERT_TRUE(Post(queue_, Add()));
  }
  Request& PostWithin(int us) {
    Request& request = Add();
    EXPECT_TRUE(Post(queue_, request, device_->Now() + std::chrono::microseconds(us)));
    return request;
  }

  QueueId queue_{};
};

TEST_F(Overload, AJobThatWouldBeLateGivesWayToOneInTime) {
  const Request &old = PostWithin(100), &young = PostWithin(200);
  device_->Advance(std::chrono::microseconds(37));
  EXPECT_EQ(old.finished, 0);
  device_->Advance(std::chrono::microseconds(1));  // 62 are left, 50 and a quarter are needed
  EXPECT_EQ(old.result.outcome, Outcome::kExpired);
  device_->RunAll();
  EXPECT_EQ(young.result.outcome, Outcome::kDone);
}

TEST_F(Overload, AJobThatWouldBeLateIsTriedWhereNoOtherIsInTime) {
  const Request &alone = PostWithin(10), &late_too = PostWithin(11);
  device_->RunAll();
  EXPECT_EQ(alone.result.outcome, Outcome::kDone);  // the fake device's blocks take no time
  EXPECT_EQ(late_too.result.outcome, Outcome::kDone);
}

TEST_F(Overload, AJobThatRunsDoesNotGiveWay) {
  device_->RunAll();
  const Request &running = PostWithin(100), &young = PostWithin(1000);
  device_->Advance(std::chrono::microseconds(99));
  EXPECT_EQ(running.finished, 0);
  device_->RunAll();
  EXPECT_EQ(running.result.outcome, Outcome::kDone);
  EXPECT_EQ(young.result.outcome, Outcome::kDone);
}

TEST_F(Overload, AJobWithoutADeadlineIsInTime) {
  const Request& late = PostWithin(100);
  Request& patient = Add();
  ASSERT_TRUE(Post(queue_, patient));
  device_->Advance(std::chrono::microseconds(50));
  EXPECT_EQ(late.result.outcome, Outcome::kExpired);
  device_->RunAll();
  EXPECT_EQ(patient.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherTest, AWaitingJobExpires) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 1);
  Request &running = Add(), &late = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, late, device_->Now() + std::chrono::hours(1)));
  device_->Advance(std::chrono::hours(2));
  EXPECT_EQ(late.result.outcome, Outcome::kExpired);
  EXPECT_EQ(running.finished, 0);
  device_->RunAll();
  EXPECT_EQ(running.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherTest, AJobThatDoesNotBeginInTheTimeOfItsQueueEnds) {
  UseReset();
  QueueOptions patient;
  patient.max_wait = std::chrono::hours(2);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 2, patient);
  Request &running = Add(), &waits = Add(), &urgent = Add();
  ASSERT_TRUE(Post(queue, running));
  device_->Advance(std::chrono::hours(1));
  ASSERT_TRUE(Post(queue, urgent, device_->Now() + std::chrono::minutes(1)));
  ASSERT_TRUE(Post(queue, waits, device_->Now() + std::chrono::hours(9)));
  device_->Advance(std::chrono::minutes(70));
  EXPECT_EQ(urgent.result.outcome, Outcome::kExpired);
  EXPECT_EQ(waits.finished, 0);
  device_->Advance(std::chrono::minutes(50));
  EXPECT_EQ(waits.result.outcome, Outcome::kNotStarted);
  EXPECT_EQ(running.finished, 0) << "it has begun, and takes as long as it takes";
  device_->RunAll();
  EXPECT_EQ(running.result.outcome, Outcome::kDone);
  Request& late = Add();  // begins in time, and then has its deadline only
  ASSERT_TRUE(Post(queue, late, device_->Now() + std::chrono::hours(3)));
  device_->Advance(std::chrono::minutes(150));
  EXPECT_EQ(late.finished, 0);
  device_->Advance(std::chrono::hours(1));
  device_->RunAll();
  EXPECT_EQ(late.result.outcome, Outcome::kExpired);
}

TEST_F(DispatcherTest, ARunningJobExpiresThroughItsGuardAndFreesItsInstance) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 4, 4);
  Request &late = Add(), &next = Add();
  ASSERT_TRUE(Post(queue, late, device_->Now() + std::chrono::hours(1)));
  ASSERT_TRUE(Post(queue, next));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());
  device_->Advance(std::chrono::hours(2));
  EXPECT_TRUE(device_->GuardsRaised());
  EXPECT_EQ(late.finished, 0);  // its block still runs: the arena is in use
  device_->FinishBlock(false);
  EXPECT_EQ(late.result.outcome, Outcome::kExpired);
  EXPECT_EQ(device_->RunAll(), 2 + 4 * 4);
  EXPECT_EQ(next.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherTest, TheTimerExpiresJobsWithoutAnyNews) {
  UseReset(FakeDevice::Time::kReal);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 1);
  struct Waiting final : JobClient {
    void Finished(const JobResult& result) override {
      outcome = result.outcome;
      done.store(true);
      done.notify_all();
    }
    Outcome outcome = Outcome::kDone;
    std::atomic<bool> done{false};
  } waiting;
  Request& running = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(dispatcher_->Post({queue, device_->Now() + std::chrono::milliseconds(5),
                                 running.inputs, running.outputs, &waiting}));
  waiting.done.wait(false);
  EXPECT_EQ(waiting.outcome, Outcome::kExpired);
  device_->RunAll();
}

TEST_F(DispatcherTest, CancelLeavesWaitingRunningAndFinishedJobsAsTheyShouldBe) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 2);
  Request &running = Add(), &waiting = Add();
  const JobId running_id = *Post(queue, running);
  const JobId waiting_id = *Post(queue, waiting);
  dispatcher_->Cancel(waiting_id);
  EXPECT_EQ(waiting.result.outcome, Outcome::kCancelled);
  ASSERT_TRUE(device_->RunBlock());
  dispatcher_->Cancel(running_id);
  dispatcher_->Cancel(running_id);
  EXPECT_EQ(running.result.outcome, Outcome::kCancelled);
  EXPECT_EQ(running.finished, 1);
  EXPECT_EQ(device_->launches(), 0u);
  EXPECT_EQ(dispatcher_->Pending(queue), 0u);
}

// All units may be busy with kernels that cannot be interrupted.
TEST_F(DispatcherTest, AJobThatLeavesDoesNotWaitForCopiesOfInputsThatHaveNotBegun) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 4);
  Request &cancelled = Add(), &expired = Add(), &next = Add();
  const JobId id = *Post(queue, cancelled);
  dispatcher_->Cancel(id);
  EXPECT_EQ(cancelled.result.outcome, Outcome::kCancelled);
  ASSERT_TRUE(dispatcher_->Post({queue, device_->Now() + std::chrono::milliseconds(5),
                                 expired.inputs, expired.outputs, &expired}));
  device_->Advance(std::chrono::milliseconds(5));
  EXPECT_EQ(expired.result.outcome, Outcome::kExpired);
  EXPECT_EQ(device_->blocks_run, 0);
  EXPECT_EQ(device_->launches(), 0u);
  ASSERT_TRUE(Post(queue, next));  // on the same instance
  device_->RunAll();
  EXPECT_EQ(next.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherTest, ALostDeviceFailsEveryJobAndRefusesNone) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 2);
  Request &running = Add(), &waiting = Add(), &late = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, waiting));
  device_->Lose();
  EXPECT_EQ(running.result.outcome, Outcome::kFailed);
  EXPECT_EQ(waiting.result.outcome, Outcome::kFailed);
  ASSERT_TRUE(Post(queue, late));
  EXPECT_EQ(late.result.outcome, Outcome::kFailed);
}

TEST_F(DispatcherTest, ASpecThatDoesNotFitThePlanIsRefused) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 1);
  Request& request = Add();
  const Result<JobId> no_input =
      dispatcher_->Post({queue, kNoDeadline, {}, request.outputs, &request});
  ASSERT_FALSE(no_input);
  EXPECT_EQ(no_input.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(
      dispatcher_->Post({QueueId{77}, kNoDeadline, request.inputs, request.outputs, &request}));
  EXPECT_FALSE(dispatcher_->AddQueue({}));
}

TEST_F(DispatcherTest, DestructionFinishesWhatIsLeft) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 2);
  Request &running = Add(), &waiting = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, waiting));
  dispatcher_.reset();
  EXPECT_EQ(running.result.outcome, Outcome::kCancelled);
  EXPECT_EQ(waiting.result.outcome, Outcome::kCancelled);
}

}  // namespace
}  // namespace lagoon
