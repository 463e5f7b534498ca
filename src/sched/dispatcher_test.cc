#include "sched/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using testing::DispatcherTest;
using ::testing::ElementsAre;
using testing::LastFirstOnTheDevice;
using testing::Request;
using Preemption = SchedulerConfig::Preemption;
using Ranks = SchedulerConfig::Ranks;
using Streams = SchedulerConfig::Streams;

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

TEST_F(DispatcherTest, ARefusedLaunchIsTriedAgain) {
  Use(kReset, /*max_launches=*/2);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 9, 2);
  Request& request = Add();
  ASSERT_TRUE(Post(queue, request));
  device_->RunAll();
  EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, 2 + 9 * 2);
}

QueueOptions With(UnitRange units) {
  QueueOptions options;
  options.units = units;
  return options;
}

TEST_F(DispatcherTest, LaunchesOfAQueueNameItsShareWhichMoves) {
  Use({}, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/4);
  const QueueId bound = AddQueue(JobClass::kBestEffort, 1, 1, With({1, 2}));
  const QueueId free = AddQueue(JobClass::kBestEffort, 1, 1);
  const auto share_of = [&](QueueId queue) {
    EXPECT_TRUE(Post(queue, Add()));
    const ShareId share = device_->share();
    device_->RunAll();
    return share;
  };
  const ShareId share = share_of(bound);
  EXPECT_NE(share, kAllUnits);
  EXPECT_EQ(device_->units(share), (UnitRange{1, 2}));
  EXPECT_EQ(share_of(free), kAllUnits);
  ASSERT_TRUE(dispatcher_->MoveShare(bound, {3, 1}));
  EXPECT_EQ(share_of(bound), share);
  EXPECT_EQ(device_->units(share), (UnitRange{3, 1}));
  ASSERT_TRUE(dispatcher_->MoveShare(bound, {}));
  EXPECT_EQ(device_->units(share), (UnitRange{0, 4}));
  ASSERT_TRUE(dispatcher_->MoveShare(free, {}));
  EXPECT_EQ(share_of(free), kAllUnits) << "it had all units already";
  ASSERT_TRUE(dispatcher_->MoveShare(free, {0, 1}));
  EXPECT_EQ(device_->units(share_of(free)), (UnitRange{0, 1}));
}

TEST_F(DispatcherTest, KernelsMayGoBeyondTheirShareIfTheSchedulerLendsUnits) {
  for (const bool lends : {false, true}) {
    SchedulerConfig config;
    config.lend_units = lends;
    Use(config, 64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
        /*units=*/4);
    const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 1, With({1, 2}));
    EXPECT_TRUE(Post(queue, Add()));
    EXPECT_EQ(device_->beyond_share(), lends);
    device_->RunAll();
  }
}

TEST_F(DispatcherTest, UnitsAndWeightsOutOfBoundsAreRefusedByName) {
  Use({});
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1, 1, With({0, 1}));
  const auto expect = [](const Status& status, std::vector<std::string> words) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    for (const std::string& word : words) {
      EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
    }
  };
  expect(dispatcher_->MoveShare(queue, {1, 3}), {"queue 'chain'", "units 1 to 3", "unit 0"});
  expect(dispatcher_->MoveShare(QueueId{7}, {0, 1}), {"queue 7"});
  expect(dispatcher_->SetWeight(queue, 0), {"weight 0"});
  expect(dispatcher_->SetWeight(QueueId{7}, 1), {"queue 7"});
  EXPECT_TRUE(dispatcher_->SetWeight(queue, 2.5));
  QueueOptions options = With({0, 2});
  options.name = "greedy";
  options.instances = {instances_.back().get()};
  Result<QueueId> added = dispatcher_->AddQueue(options);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("share 'greedy'"), std::string::npos);
  options.units = {};
  options.weight = 0;
  added = dispatcher_->AddQueue(options);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("queue 'greedy'"), std::string::npos);
}

}  // namespace
}  // namespace lagoon
