#include "sched/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeDevice;
using ::testing::HasSubstr;
using testing::Request;
using Preemption = SchedulerConfig::Preemption;
using Ranks = SchedulerConfig::Ranks;
using Streams = SchedulerConfig::Streams;

constexpr SchedulerConfig kReset = {.name = "reset", .preemption = Preemption::kReset};

class DispatcherTest : public testing::DispatcherFixture {
 protected:
  void UseReset(FakeDevice::Time time = FakeDevice::Time::kVirtual) { Use(kReset, 64, time); }
};

TEST_F(DispatcherTest, RunsAJobFromInputToOutput) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 6, 3);
  Request& request = Add();
  ASSERT_TRUE(Post(queue, request));
  EXPECT_EQ(request.finished, 0);
  EXPECT_EQ(device_->RunAll(), 1 + 6 * 3 + 1);  // input, kernels, output
  EXPECT_EQ(request.finished, 1);
  EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_LE(request.result.posted, request.result.started);
  EXPECT_LE(request.result.first_block, request.result.inputs_copied);
  EXPECT_LE(request.result.inputs_copied, request.result.computed);
  EXPECT_LE(request.result.computed, request.result.finished);
}

TEST_F(DispatcherTest, AJobWithoutInputsAndOutputsEndsWithItsLastKernel) {
  SchedulerConfig one_at_a_time = kReset;
  one_at_a_time.depth = 1;  // after each kernel nothing of the job is on the device
  Use(one_at_a_time);
  const auto plan = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(3, 2));
  plan->plan.inputs.clear();
  plan->plan.outputs.clear();
  const QueueId queue = AddQueue(JobClass::kBestEffort, plan);
  Request& request = Add();
  ASSERT_TRUE(dispatcher_->Post({queue, kNoDeadline, {}, {}, &request}));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(request.finished, 0);
  ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(request.finished, 1);
  EXPECT_EQ(request.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherTest, AnOutputThatIsNotWantedIsNotCopied) {
  UseReset();
  const auto plan = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(2, 3));
  for (const std::size_t offset : {80, 96}) {
    plan->plan.outputs.push_back(plan->plan.outputs.front());
    plan->plan.outputs.back().range.offset = offset;
  }
  plan->plan.arena_bytes = 128;
  const QueueId queue = AddQueue(JobClass::kBestEffort, plan);
  for (unsigned wanted = 0; wanted < 8; ++wanted) {  // a bit for each output
    Request& request = Add();
    std::vector<void*> outputs(3, nullptr);
    int copies = 0;
    for (unsigned i = 0; i < 3; ++i) {
      if ((wanted >> i & 1) == 0) continue;
      outputs[i] = request.y;
      ++copies;
    }
    ASSERT_TRUE(dispatcher_->Post({queue, kNoDeadline, request.inputs, outputs, &request}));
    EXPECT_EQ(device_->RunAll(), 1 + 2 * 3 + copies) << wanted;
    EXPECT_EQ(request.finished, 1) << wanted;
    EXPECT_EQ(request.result.outcome, Outcome::kDone) << wanted;
  }
}

// Picks the job that was posted first, but ranks jobs so that the device runs the last one first.
class LastFirstOnTheDevice final : public Policy {
  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* job = view.ready.RealTimeFirst();
    if (job == nullptr) return Decision::Wait();
    return Decision::Run(*job, ~0u, Decision::kLastRank - Raw(job->id));
  }
};

TEST_F(DispatcherTest, TheDeviceGoesByThePolicysRanksAmongTheJobsOfAClass) {
  Use({.name = "ranked", .ranks = Ranks::kPolicy}, 64, testing::FakeDevice::Time::kVirtual,
      std::make_unique<LastFirstOnTheDevice>());
  std::vector<std::string> order;
  for (const auto& [name, job_class] :
       {std::pair("background", JobClass::kBestEffort), std::pair("early", JobClass::kRealTime),
        std::pair("late", JobClass::kRealTime)}) {
    Request& request = Add();
    request.name = name;
    request.order = &order;
    ASSERT_TRUE(Post(AddQueue(job_class, 3, 2), request));
  }
  device_->RunAll();
  EXPECT_EQ(order, (std::vector<std::string>{"late", "early", "background"}));
}

// How a switch ended; nullopt: it has not ended.
using SwitchResult = std::optional<Status>;

TEST_F(DispatcherTest, ASwitchLetsEarlierJobsFinishAndLaterOnesRunUnderTheNewScheduler) {
  Use({.name = "old", .ranks = Ranks::kPolicy});
  std::vector<std::string> order;
  const auto add = [&](const char* name) -> Request& {
    Request& request = Add();
    request.name = name;
    request.order = &order;
    return request;
  };
  const QueueId first = AddQueue(JobClass::kRealTime, 3, 2);
  const QueueId second = AddQueue(JobClass::kRealTime, 3, 2);
  ASSERT_TRUE(Post(AddQueue(JobClass::kRealTime, 3, 2), add("early")));
  ASSERT_TRUE(device_->RunBlock());
  SwitchResult switched;
  dispatcher_->Switch({.name = "new", .ranks = Ranks::kPolicy},
                      std::make_unique<LastFirstOnTheDevice>(),
                      [&](Status status) { switched = std::move(status); });
  ASSERT_TRUE(Post(first, add("third")));
  ASSERT_TRUE(Post(second, add("second")));  // the new policy's ranks: last first
  EXPECT_EQ(dispatcher_->config().name, "old");
  EXPECT_FALSE(switched);
  device_->RunAll();
  ASSERT_TRUE(switched);
  EXPECT_TRUE(switched->has_value());
  EXPECT_EQ(dispatcher_->config().name, "new");
  EXPECT_EQ(order, (std::vector<std::string>{"early", "second", "third"}));
}

TEST_F(DispatcherTest, AnIdleDispatcherSwitchesAtOnceAndAsOftenAsOneLikes) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 3, 2);
  for (int i = 0; i < 300; ++i) {  // more often than the device has streams and guards
    SwitchResult switched;
    const auto streams = i % 3 == 0   ? Streams::kOne
                         : i % 3 == 1 ? Streams::kPerJob
                                      : Streams::kPerQueue;
    dispatcher_->Switch({.name = "new", .streams = streams, .preemption = kReset.preemption},
                        std::make_unique<testing::ClassFirst>(),
                        [&](Status status) { switched = std::move(status); });
    ASSERT_TRUE(switched && switched->has_value());
    Request& request = Add();
    ASSERT_TRUE(Post(queue, request));
    device_->RunAll();
    ASSERT_EQ(request.result.outcome, Outcome::kDone);
  }
}

TEST_F(DispatcherTest, ASecondSwitchIsRefusedWhileOneIsUnderWay) {
  UseReset();
  Request& request = Add();
  ASSERT_TRUE(Post(AddQueue(JobClass::kBestEffort, 3, 2), request));
  SwitchResult first, second;
  const auto to = [&](const char* name, SwitchResult& result) {
    dispatcher_->Switch({.name = name}, std::make_unique<testing::ClassFirst>(),
                        [&](Status status) { result = std::move(status); });
  };
  to("first", first);
  to("second", second);
  EXPECT_FALSE(first);
  ASSERT_TRUE(second);
  ASSERT_FALSE(second->has_value());
  EXPECT_EQ(second->error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(second->error().message, HasSubstr("'second'"));
  device_->RunAll();
  EXPECT_TRUE(first && first->has_value());
}

TEST_F(DispatcherTest, AJobThatASwitchHoldsBackCanBeCancelled) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 3, 2);
  Request &early = Add(), &late = Add();
  ASSERT_TRUE(Post(queue, early));
  dispatcher_->Switch({.name = "new"}, std::make_unique<testing::ClassFirst>(), [](Status) {});
  const Result<JobId> held = Post(queue, late);
  ASSERT_TRUE(held);
  dispatcher_->Cancel(*held);
  device_->RunAll();
  EXPECT_EQ(early.result.outcome, Outcome::kDone);
  EXPECT_EQ(late.result.outcome, Outcome::kCancelled);
}

TEST_F(DispatcherTest, ASwitchUnderWayIsToldWhenTheDispatcherEnds) {
  Use(kReset, 64, testing::FakeDevice::Time::kVirtual);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 3, 2);
  Request &early = Add(), &late = Add();
  ASSERT_TRUE(Post(queue, early));
  ASSERT_TRUE(device_->RunBlock());  // the copy of its input, which has no guard
  SwitchResult switched;
  dispatcher_->Switch({.name = "new"}, std::make_unique<testing::ClassFirst>(),
                      [&](Status status) { switched = std::move(status); });
  ASSERT_TRUE(Post(queue, late));
  dispatcher_.reset();
  ASSERT_TRUE(switched);
  EXPECT_FALSE(switched->has_value());
  EXPECT_EQ(early.result.outcome, Outcome::kCancelled);
  EXPECT_EQ(late.result.outcome, Outcome::kCancelled);
}

TEST_F(DispatcherTest, KeepsTheDeviceQueueAtItsDepth) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 20, 2);
  Request& request = Add();
  ASSERT_TRUE(Post(queue, request));
  device_->RunAll();
  EXPECT_EQ(device_->most_launches, 4u + 1);  // kernels, and the input before it
}

TEST_F(DispatcherTest, ResetMakesRunningBestEffortBlocksLeaveAndResumesThemWhereTheyWere) {
  UseReset();
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, 3, 4);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 2, 2);
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  for (int i = 0; i < 1 + 2; ++i) ASSERT_TRUE(device_->RunBlock());  // input and two blocks
  ASSERT_TRUE(device_->StartBlock());
  EXPECT_FALSE(device_->GuardsRaised());

  ASSERT_TRUE(Post(real_time, urgent));
  EXPECT_TRUE(device_->GuardsRaised());
  EXPECT_TRUE(device_->work_held());
  device_->FinishBlock(false);
  for (int i = 0; i < 1 + 2 * 2; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(background.finished, 0);
  device_->RunAll();

  EXPECT_EQ(urgent.result.outcome, Outcome::kDone);
  EXPECT_EQ(urgent.result.revocations, 0u);
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
  EXPECT_EQ(background.result.revocations, 1u);
  EXPECT_EQ(background.result.resumed_blocks, 2u);
  EXPECT_EQ(dispatcher_->Stats().revocations, 1u);
  // Every block was committed once: two copies and the kernels of both jobs.
  EXPECT_EQ(device_->blocks_run, (2 + 3 * 4) + (2 + 2 * 2));
  EXPECT_FALSE(device_->work_held());
}

TEST_F(DispatcherTest, ResetRaisesTheGuardBeforeItSubmitsRealTimeWork) {
  UseReset();
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, 3, 4);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 1, 1);
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  device_->log.clear();
  ASSERT_TRUE(Post(real_time, urgent));
  EXPECT_THAT(device_->log, ElementsAre("raise 0 to 1", "copy 2", "submit 2", "copy 2"));
}

TEST_F(DispatcherTest, ABlockThatCommitsAfterTheRevocationCounts) {
  UseReset();
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, 2, 1);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 1, 1);
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());
  ASSERT_TRUE(Post(real_time, urgent));
  device_->FinishBlock(true);  // it was past its first visible write
  device_->RunAll();
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, (2 + 2) + (2 + 1));
}

TEST_F(DispatcherTest, WaitLetsTheRunningKernelFinishAndEvictsTheQueuedOnes) {
  Use({.name = "wait", .streams = Streams::kPerQueue, .preemption = Preemption::kWait});
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, 3, 4);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 1, 1);
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  for (int i = 0; i < 1 + 1; ++i) ASSERT_TRUE(device_->RunBlock());
  ASSERT_TRUE(device_->StartBlock());
  ASSERT_TRUE(Post(real_time, urgent));
  EXPECT_FALSE(device_->GuardsRaised());
  EXPECT_EQ(device_->launches(), 1u);  // the running kernel; nothing real-time yet
  EXPECT_TRUE(device_->work_held());
  device_->FinishBlock(true);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(urgent.finished, 0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device_->RunBlock());
  EXPECT_EQ(urgent.finished, 1);
  device_->RunAll();
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
  EXPECT_EQ(background.result.resumed_blocks, 0u);
}

TEST_F(DispatcherTest, SequentialRunsOneJobAtATimeRealTimeFirst) {
  Use({.name = "sequential",
       .streams = Streams::kOne,
       .ranks = Ranks::kSubmission,
       .max_active_jobs = 1,
       .depth = 0});
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, 2, 2);
  const QueueId other = AddQueue(JobClass::kBestEffort, 2, 2);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 2, 2);
  std::vector<std::string> order;
  Request &a = Add(), &b = Add(), &urgent = Add();
  a.name = "a", b.name = "b", urgent.name = "urgent";
  a.order = b.order = urgent.order = &order;
  ASSERT_TRUE(Post(best_effort, a));
  ASSERT_TRUE(Post(other, b));
  ASSERT_TRUE(Post(real_time, urgent));
  EXPECT_TRUE(device_->work_held());
  device_->RunAll();
  EXPECT_THAT(order, ElementsAre("a", "urgent", "b"));
  EXPECT_EQ(device_->raises, 0);
}

TEST_F(DispatcherTest, StreamsSubmitEverythingAtOnce) {
  Use({.name = "streams", .streams = Streams::kPerQueue, .ranks = Ranks::kSubmission, .depth = 0});
  const QueueId best_effort = AddQueue(JobClass::kBestEffort, 5, 2);
  const QueueId real_time = AddQueue(JobClass::kRealTime, 5, 2);
  Request &background = Add(), &urgent = Add();
  ASSERT_TRUE(Post(best_effort, background));
  ASSERT_TRUE(Post(real_time, urgent));
  EXPECT_EQ(device_->launches(), 2 * (1u + 5 + 1));
  device_->RunAll();
  EXPECT_EQ(device_->raises, 0);
  EXPECT_EQ(urgent.result.outcome, Outcome::kDone);
  EXPECT_EQ(background.result.outcome, Outcome::kDone);
}

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

TEST_F(DispatcherTest, ARefusedLaunchIsTriedAgain) {
  Use(kReset, /*max_launches=*/2);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 9, 2);
  Request& request = Add();
  ASSERT_TRUE(Post(queue, request));
  device_->RunAll();
  EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, 2 + 9 * 2);
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

TEST_F(DispatcherTest, JobsOfOneInstanceRunThePlanOfTheirBatchSize) {
  UseReset();
  auto plans = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(2, 3));
  plans->larger.push_back(testing::ChainPlan(4, 5)->plan);
  instances_.push_back(*Instance::Create(plans, *device_));
  QueueOptions options;
  options.name = "chain";
  options.instances = {instances_.back().get()};
  const QueueId queue = *dispatcher_->AddQueue(options);
  std::uint32_t blocks = 0;
  for (const std::size_t size : {1, 0, 1}) {
    Request& request = Add();
    ASSERT_TRUE(
        dispatcher_->Post({queue, kNoDeadline, request.inputs, request.outputs, &request, size}));
    blocks += size == 0 ? 2 + 2 * 3 : 2 + 4 * 5;
  }
  device_->RunAll();
  for (const Request& request : requests_) EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, blocks);

  Request& request = Add();
  const Result<JobId> no_size =
      dispatcher_->Post({queue, kNoDeadline, request.inputs, request.outputs, &request, 2});
  ASSERT_FALSE(no_size);
  EXPECT_EQ(no_size.error().message, "queue 'chain': the job is of batch size 2, there are 2");
}

TEST_F(DispatcherTest, DestructionFinishesWhatIsLeft) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 2);
  Request &running = Add(), &waiting = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, waiting));
  ASSERT_TRUE(device_->RunBlock());  // the input's copy, which has no guard
  dispatcher_.reset();
  EXPECT_EQ(running.result.outcome, Outcome::kCancelled);
  EXPECT_EQ(waiting.result.outcome, Outcome::kCancelled);
}

}  // namespace
}  // namespace lagoon
