// How long news waits for the dispatcher: rounds of the combiner, and bounds of its queues. The
// device runs every launch at once, so that a thread in the dispatcher finds more to do for as long
// as jobs have kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::Request;

// A round submits one kernel of each job.
constexpr SchedulerConfig kOneAtATime = {.name = "one at a time", .depth = 1};
constexpr std::uint32_t kMany = 500;

/// Calls a function with the result of the job.
struct Caller final : JobClient {
  void Finished(const JobResult& result_in) override {
    result = result_in;
    ++finished;
    if (then) then();
  }
  float x[4] = {}, y[4] = {};
  const void* inputs[1] = {x};
  void* outputs[1] = {y};
  int finished = 0;
  JobResult result;
  std::function<void()> then;
};

using DispatcherFixtureTest = testing::DispatcherFixture;

// Parameter: whether the device calls its listener for events that the dispatcher's own calls
// cause. If not, the dispatcher sees these events only when it polls.
class Combiner : public testing::DispatcherFixture, public ::testing::WithParamInterface<bool> {
 protected:
  Combiner() {
    Use(kOneAtATime);
    device_->quiet = GetParam();
    slow_ = AddQueue(JobClass::kBestEffort, kMany, 1);
    quick_ = AddQueue(JobClass::kRealTime, 2, 1);
    device_->on_submit = [this] {
      device_->RunAll();
      if (++submitted_ == 10 && at_ten_) at_ten_();
    };
  }
  Result<JobId> PostFor(QueueId queue, Caller& caller) {
    return dispatcher_->Post({queue, kNoDeadline, caller.inputs, caller.outputs, &caller});
  }

  /// Launches between the end of a short job's last launch and the short job's answer, beside a
  /// long best-effort job.
  std::uint32_t KernelsBeforeTheAnswer(JobClass job_class) {
    const QueueId queue = AddQueue(job_class, 2, 1);
    Request& slow = Add();
    Caller quick;
    std::uint32_t last = 0, answered = 0;
    quick.then = [&] { answered = submitted_; };
    at_ten_ = [&] { ASSERT_TRUE(PostFor(queue, quick)); };
    device_->on_submit = [&, run = device_->on_submit] {
      run();
      if (device_->log.back().ends_with(" 2")) last = submitted_;
    };
    EXPECT_TRUE(Post(slow_, slow));
    EXPECT_EQ(quick.result.outcome, Outcome::kDone);
    EXPECT_GT(last, 0u);
    // The work that was left meanwhile is still done.
    EXPECT_EQ(slow.finished, 1);
    return answered - last;
  }

  QueueId slow_{}, quick_{};
  std::uint32_t submitted_ = 0;
  std::function<void()> at_ten_;  // called in the middle of a round
};
INSTANTIATE_TEST_SUITE_P(News, Combiner, ::testing::Bool(), [](const auto& quiet) {
  return quiet.param ? "ByPolling" : "ByTheListener";
});

TEST_P(Combiner, APostIsAdmittedByTheNextRound) {
  Request &slow = Add(), &quick = Add();
  std::size_t posted = 0;
  at_ten_ = [&] {
    ASSERT_TRUE(Post(quick_, quick));
    posted = device_->log.size();
  };
  ASSERT_TRUE(Post(slow_, slow));
  EXPECT_EQ(quick.result.outcome, Outcome::kDone);
  EXPECT_EQ(slow.result.outcome, Outcome::kDone);
  ASSERT_GT(posted, 0u);
  // This round submits nothing more: the tenth launch was its kernel.
  EXPECT_EQ(device_->log.at(posted), "copy 2");
}

TEST_P(Combiner, AFinishedJobIsAnsweredAfterAFewRounds) {
  // A round submits one kernel of the other job.
  EXPECT_LE(KernelsBeforeTheAnswer(JobClass::kBestEffort), Dispatcher::kMaxRounds);
}

TEST_P(Combiner, ARealTimeJobIsAnsweredAfterTheRoundInWhichItFinished) {
  // The kernel that this round submits after the last launch of the real-time job.
  EXPECT_EQ(KernelsBeforeTheAnswer(JobClass::kRealTime), 1u);
}

// Best-effort work was revoked for the real-time job, whose last kernel and output copy are over.
TEST_F(DispatcherFixtureTest, ARealTimeJobIsAnsweredBeforeBestEffortWorkIsSubmittedAgain) {
  Use({.name = "reset", .preemption = SchedulerConfig::Preemption::kReset});
  device_->quiet = true;
  const QueueId slow = AddQueue(JobClass::kBestEffort, kMany, 1);
  const QueueId quick = AddQueue(JobClass::kRealTime, 2, 1);
  Request& best_effort = Add();
  Caller real_time;
  std::size_t at_answer = 0;
  real_time.then = [&] { at_answer = device_->log.size(); };
  ASSERT_TRUE(Post(slow, best_effort));
  ASSERT_TRUE(
      dispatcher_->Post({quick, kNoDeadline, real_time.inputs, real_time.outputs, &real_time}));
  device_->RunAll();
  ASSERT_EQ(real_time.finished, 0);
  const std::size_t before = device_->log.size();
  dispatcher_->Cancel(JobId{~std::uint64_t{0}});  // no such job: the call only begins a round
  ASSERT_EQ(real_time.finished, 1);
  EXPECT_EQ(at_answer, before);
  EXPECT_GT(device_->log.size(), before);
}

TEST_P(Combiner, WhatAnAnswerPostsIsNotDoneInsideOfTheCall) {
  Caller again;
  int depth = 0, most = 0;
  again.then = [&] {
    most = std::max(most, ++depth);
    if (again.finished < 100) {
      ASSERT_TRUE(PostFor(quick_, again));
    }
    --depth;
  };
  ASSERT_TRUE(PostFor(quick_, again));
  EXPECT_EQ(again.finished, 100);
  EXPECT_EQ(most, 1);
}

TEST_P(Combiner, OtherThreadsWorkWhileAClientIsCalled) {
  const QueueId other = AddQueue(JobClass::kRealTime, 2, 1);
  Request &slow = Add(), &urgent = Add();
  Caller blocking;
  std::atomic<bool> called{false}, go_on{false};
  blocking.then = [&] {
    called.store(true);
    called.notify_all();
    go_on.wait(false);
  };
  at_ten_ = [&] { ASSERT_TRUE(PostFor(quick_, blocking)); };
  std::thread first([&] { EXPECT_TRUE(Post(slow_, slow)); });
  called.wait(false);
  EXPECT_EQ(slow.finished, 0);
  ASSERT_TRUE(Post(other, urgent));
  EXPECT_EQ(urgent.finished, 1);
  EXPECT_EQ(slow.finished, 1);  // this thread has taken over
  go_on.store(true);
  go_on.notify_all();
  first.join();
}

using DispatcherBounds = testing::DispatcherFixture;

// For a queue that keeps only the newest jobs.
QueueOptions NewestOf(std::size_t max_pending) {
  QueueOptions options;
  options.max_pending = max_pending;
  options.overflow = Overflow::kNewestWins;
  return options;
}

// A policy that posts and cancels a job while another one is admitted.
class PostsAndCancels final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
  void OnArrival(const ScheduledJob& /*job*/) override {
    if (on_arrival) std::exchange(on_arrival, nullptr)();
  }
  std::function<void()> on_arrival;
};

TEST_F(DispatcherBounds, ACancellationDoesNotOvertakeItsJob) {
  auto policy = std::make_unique<PostsAndCancels>();
  PostsAndCancels& posts = *policy;
  Use(kOneAtATime, 64, testing::FakeDevice::Time::kVirtual, std::move(policy));
  const QueueId first = AddQueue(JobClass::kBestEffort, 3, 1);
  const QueueId second = AddQueue(JobClass::kBestEffort, 3, 1);
  Request &other = Add(), &cancelled = Add();
  posts.on_arrival = [&] {  // in a round that has already taken what was posted
    const Result<JobId> job = Post(second, cancelled);
    ASSERT_TRUE(job);
    dispatcher_->Cancel(*job);
  };
  ASSERT_TRUE(Post(first, other));
  device_->RunAll();
  EXPECT_EQ(other.result.outcome, Outcome::kDone);
  EXPECT_EQ(cancelled.result.outcome, Outcome::kCancelled);
}

TEST_F(DispatcherBounds, CancellationsWaitForTheRoundWhenThereAreTooMany) {
  Use(kOneAtATime);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 3, 1);
  Request &running = Add(), &waiting = Add();
  std::atomic<bool> in_round{false}, go_on{false};
  std::atomic<std::size_t> cancels{0};
  device_->on_submit = [&] {
    if (in_round.exchange(true)) return;
    in_round.notify_all();
    go_on.wait(false);
  };
  std::thread worker([&] { EXPECT_TRUE(Post(queue, running)); });
  in_round.wait(false);
  const Result<JobId> job = Post(queue, waiting);
  ASSERT_TRUE(job);
  std::thread canceller([&] {
    // The dispatcher checks how many it finds.
    for (std::size_t i = 0; i < 20 * Dispatcher::kMaxCancels; ++i) {
      dispatcher_->Cancel(i % 2 == 0 ? *job : JobId{1'000'000 + i});
      if (++cancels == Dispatcher::kMaxCancels) cancels.notify_all();
    }
  });
  for (std::size_t seen; (seen = cancels.load()) < Dispatcher::kMaxCancels;) cancels.wait(seen);
  go_on.store(true);
  go_on.notify_all();
  canceller.join();
  worker.join();
  EXPECT_EQ(waiting.result.outcome, Outcome::kCancelled);
  EXPECT_EQ(waiting.finished, 1);
  device_->RunAll();
  EXPECT_EQ(running.result.outcome, Outcome::kDone);
}

TEST_F(DispatcherBounds, ASwitchKeepsNoMoreJobsThanTheQueueHasRoomFor) {
  Use(kOneAtATime);
  const QueueId queue = AddQueue(JobClass::kRealTime, 2, 1, NewestOf(2));
  Request& running = Add();
  std::vector<Request*> late;
  ASSERT_TRUE(Post(queue, running));
  ASSERT_TRUE(
      Post(queue, *late.emplace_back(&Add())));  // waits for the instance, not for the switch
  bool switched = false;
  dispatcher_->Switch({.name = "new"}, std::make_unique<testing::ClassFirst>(),
                      [&](const Status& status) { switched = status.has_value(); });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Post(queue, *late.emplace_back(&Add())));
  EXPECT_FALSE(switched);
  EXPECT_EQ(dispatcher_->Pending(queue), 2u);
  for (std::size_t i = 0; i + 2 < late.size(); ++i) {
    ASSERT_EQ(late[i]->finished, 1) << i;
    EXPECT_EQ(late[i]->result.outcome, Outcome::kSuperseded);
  }
  device_->RunAll();
  EXPECT_TRUE(switched);
  for (std::size_t i = late.size() - 2; i < late.size(); ++i) {
    EXPECT_EQ(late[i]->result.outcome, Outcome::kDone);
  }
}

TEST_F(DispatcherBounds, JobsOfARoundThatTakesLongAreRefusedAtALimit) {
  Use(kOneAtATime);
  const QueueId queue = AddQueue(JobClass::kRealTime, 2, 1, NewestOf(3));
  const QueueId other = AddQueue(JobClass::kRealTime, 2, 1);
  Request &posts = Add(), &newest = Add();
  const std::size_t most = 3 + Dispatcher::kMaxUnadmitted;
  for (std::size_t i = 0; i < most; ++i) Add();
  std::string refused;
  device_->on_submit = [&] {  // nothing is admitted before the round is over
    if (!refused.empty()) return;
    for (std::size_t i = 0; i < most; ++i) ASSERT_TRUE(Post(queue, requests_[2 + i])) << i;
    const Result<JobId> one_more = Post(queue, newest);
    ASSERT_FALSE(one_more);
    EXPECT_EQ(one_more.error().code, ErrorCode::kUnavailable);
    refused = one_more.error().message;
  };
  ASSERT_TRUE(Post(other, posts));
  EXPECT_THAT(refused, HasSubstr("queue 'chain' is full: 1027 requests"));
  EXPECT_LE(dispatcher_->Pending(queue), 3u);
  EXPECT_TRUE(Post(queue, newest));
  device_->RunAll();
  EXPECT_EQ(newest.result.outcome, Outcome::kDone);
}

}  // namespace
}  // namespace lagoon
