// Switching from one scheduler to another while jobs run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using testing::DispatcherTest;
using ::testing::HasSubstr;
using testing::LastFirstOnTheDevice;
using testing::Request;
using Ranks = SchedulerConfig::Ranks;
using Streams = SchedulerConfig::Streams;

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

TEST_F(DispatcherTest, AJobThatASwitchHoldsBackExpires) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 3, 2);
  Request &early = Add(), &late = Add(), &patient = Add();
  ASSERT_TRUE(Post(queue, early));
  dispatcher_->Switch({.name = "new"}, std::make_unique<testing::ClassFirst>(), [](Status) {});
  ASSERT_TRUE(Post(queue, patient, device_->Now() + std::chrono::hours(9)));
  ASSERT_TRUE(Post(queue, late, device_->Now() + std::chrono::hours(1)));
  EXPECT_EQ(dispatcher_->Pending(queue), 2u);
  device_->Advance(std::chrono::hours(2));
  EXPECT_EQ(late.finished, 1);
  EXPECT_EQ(late.result.outcome, Outcome::kExpired);
  EXPECT_EQ(dispatcher_->Pending(queue), 1u);
  EXPECT_EQ(early.finished + patient.finished, 0);
  device_->RunAll();
  EXPECT_EQ(early.result.outcome, Outcome::kDone);
  EXPECT_EQ(patient.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherTest, TheTimerWatchesTheDeadlinesOfJobsThatASwitchHoldsBack) {
  UseReset(testing::FakeDevice::Time::kReal);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 3, 2);
  Request& early = Add();
  ASSERT_TRUE(Post(queue, early));
  ASSERT_TRUE(device_->RunBlock());  // the copy of its input, which has no guard
  dispatcher_->Switch({.name = "new"}, std::make_unique<testing::ClassFirst>(), [](Status) {});
  Request &first = Add(), &second = Add();
  for (Request* late : {&first, &second}) {  // the timer has slept once when the second one is due
    ASSERT_TRUE(Post(queue, *late, device_->Now() + std::chrono::milliseconds(1)));
    while (dispatcher_->Pending(queue) > 0) std::this_thread::yield();
  }
  dispatcher_.reset();
  EXPECT_EQ(first.result.outcome, Outcome::kExpired);
  EXPECT_EQ(second.result.outcome, Outcome::kExpired);
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

}  // namespace
}  // namespace lagoon
