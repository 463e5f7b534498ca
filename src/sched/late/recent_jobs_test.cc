// Which jobs had the device while a job waited (JobResult::behind).

#include "sched/late/recent_jobs.h"

#include <gtest/gtest.h>

#include <string>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using testing::DispatcherTest;
using testing::Request;

class Behind : public DispatcherTest {
 protected:
  QueueId Queue(const std::string& name, JobClass job_class) {
    QueueOptions options;
    options.name = name;
    return AddQueue(job_class, 1, 1, options);
  }
  /// Runs what is there, which takes so long.
  void RunFor(milliseconds time) {
    ASSERT_TRUE(device_->StartBlock());  // a copy, or the kernel
    device_->Advance(time);
    device_->FinishBlock(true);
    device_->RunAll();
  }
};

TEST_F(Behind, AJobAloneWaitsForNone) {
  UseReset();
  const QueueId queue = Queue("a", JobClass::kRealTime);
  for (int i = 0; i < 3; ++i) {
    Request& request = Add();
    ASSERT_TRUE(Post(queue, request));
    RunFor(milliseconds(1));
    EXPECT_EQ(request.result.behind.jobs, 0u);
    EXPECT_EQ(request.result.behind.longest, Nanoseconds(0));
    EXPECT_STREQ(request.result.behind.queue.data(), "");
    device_->Advance(milliseconds(1));
  }
}

TEST_F(Behind, AJobThatWaitedKnowsHowManyWentFirstAndTheLongest) {
  UseReset();
  const QueueId queue = Queue("camera", JobClass::kRealTime);
  Request &first = Add(), &second = Add(), &third = Add();
  for (Request* request : {&first, &second, &third}) ASSERT_TRUE(Post(queue, *request));
  // One instance: they run one after the other.
  while (third.finished == 0 && device_->StartBlock()) {
    device_->Advance(first.finished == 0 ? milliseconds(5) : milliseconds(1));
    device_->FinishBlock(true);
  }
  EXPECT_EQ(first.result.behind.jobs, 0u);
  EXPECT_EQ(second.result.behind.jobs, 1u);
  EXPECT_EQ(third.result.behind.jobs, 2u);
  EXPECT_STREQ(third.result.behind.queue.data(), "camera");
  EXPECT_GE(third.result.behind.longest, milliseconds(5));
  EXPECT_LT(third.result.behind.longest, third.result.started - third.result.posted);
}

TEST_F(Behind, AJobThatExpiresInTheQueueKnowsWhatRuns) {
  UseReset();
  const QueueId queue = Queue("camera", JobClass::kBestEffort);
  Request &running = Add(), &late = Add();
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(Post(queue, late, device_->Now() + milliseconds(2)));
  device_->Advance(milliseconds(3));
  ASSERT_EQ(late.result.outcome, Outcome::kExpired);
  EXPECT_EQ(late.result.behind.jobs, 1u);
  EXPECT_STREQ(late.result.behind.queue.data(), "camera");
  EXPECT_GE(late.result.behind.longest, milliseconds(2));
}

TEST_F(Behind, BestEffortJobsCountTheRealTimeJobsThatRevokedThemAndNotTheOtherWayRound) {
  UseReset();
  const QueueId low = Queue("low", JobClass::kBestEffort);
  const QueueId high = Queue("high", JobClass::kRealTime);
  Request &victim = Add(), &urgent = Add();
  ASSERT_TRUE(Post(low, victim));
  ASSERT_TRUE(device_->StartBlock());
  ASSERT_TRUE(Post(high, urgent));
  device_->FinishBlock(false);
  while (urgent.finished == 0 && device_->StartBlock()) {
    device_->Advance(milliseconds(1));
    device_->FinishBlock(true);
  }
  device_->RunAll();
  ASSERT_EQ(victim.result.outcome, Outcome::kDone);
  EXPECT_EQ(urgent.result.behind.jobs, 0u);
  EXPECT_EQ(victim.result.behind.jobs, 1u);
  EXPECT_STREQ(victim.result.behind.queue.data(), "high");
}

TEST_F(Behind, WithoutPreemptionARealTimeJobWaitsForBestEffortJobs) {
  Use({.name = "fifo"});
  const QueueId low = Queue("low", JobClass::kBestEffort);
  const QueueId high = Queue("high", JobClass::kRealTime);
  Request &first = Add(), &urgent = Add();
  ASSERT_TRUE(Post(low, first));
  ASSERT_TRUE(Post(high, urgent, device_->Now() + milliseconds(2)));
  device_->Advance(milliseconds(3));
  device_->RunAll();
  ASSERT_EQ(urgent.result.outcome, Outcome::kExpired);
  // Both had the device at once, or one after the other: what counts is the wait.
  EXPECT_EQ(urgent.result.behind.jobs, urgent.result.started > urgent.result.posted ? 1u : 0u);
}

TEST(RecentJobs, GoesBackSoFarAndNoFurther) {
  RecentJobs recent;
  const auto at = [](int ms) { return TimePoint(milliseconds(ms)); };
  for (int i = 0; i < 300; ++i) {
    recent.Add({QueueId{}, JobClass::kRealTime, at(i), at(i + 1)});
  }
  const auto name = [](QueueId) { return std::string_view("q"); };
  const RecentJobs::Waited all = {.self = {QueueId{}, JobClass::kRealTime, at(300), at(301)},
                                  .arrived = at(0)};
  RanBefore behind;
  recent.CountAll(all, name, behind);
  EXPECT_EQ(behind.jobs, RecentJobs::kMost);
  RecentJobs::Waited some = all;
  some.arrived = at(290);
  RanBefore few;
  recent.CountAll(some, name, few);
  EXPECT_EQ(few.jobs, 10u);
  recent.Forget(QueueId{});
  RanBefore none;
  recent.CountAll(some, name, none);
  EXPECT_EQ(none.jobs, 0u);
}

TEST(RecentJobs, AWorseJobCountsOnlyWhereNothingIsRevokedAndOnlyForTheWait) {
  RecentJobs recent;
  const auto at = [](int ms) { return TimePoint(milliseconds(ms)); };
  recent.Add({QueueId{}, JobClass::kBestEffort, at(0), at(10)});
  const auto name = [](QueueId) { return std::string_view("q"); };
  RecentJobs::Waited waited = {.self = {QueueId{}, JobClass::kRealTime, at(8), at(12)},
                               .arrived = at(5)};
  RanBefore none;
  recent.CountAll(waited, name, none);
  EXPECT_EQ(none.jobs, 0u);
  waited.any_class = true;
  RanBefore one;
  recent.CountAll(waited, name, one);
  EXPECT_EQ(one.jobs, 1u);
  EXPECT_EQ(one.longest, milliseconds(3));
}

TEST(RecentJobs, ALongNameIsCut) {
  RanBefore behind;
  behind.SetQueue(std::string(100, 'n'));
  EXPECT_EQ(std::string(behind.queue.data()), std::string(47, 'n'));
  behind.SetQueue("m");
  EXPECT_STREQ(behind.queue.data(), "m");
}

}  // namespace
}  // namespace lagoon
