#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "sched/testing/program_host_fixture.h"

namespace lagoon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Keeps the answers, and takes them when the test says so.
class Reader final : public JobClient {
 public:
  void Finished(const JobResult& result) override {
    const std::lock_guard lock(mutex_);
    result_ = result;
    finished_ = true;
    changed_.notify_all();
  }
  void Sent(std::span<const std::span<const std::byte>> outputs,
            std::function<void()> taken) override {
    const std::lock_guard lock(mutex_);
    float first = 0;
    std::memcpy(&first, outputs[0].data(), sizeof(first));
    answers_.push_back(first);
    taken_.push_back(std::move(taken));
    changed_.notify_all();
  }
  std::size_t AwaitAnswers(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers_.size() >= count || finished_; });
    return answers_.size();
  }
  JobResult Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_; });
    return result_;
  }
  void Take() {
    std::vector<std::function<void()>> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(taken_);
    }
    for (const auto& one : taken) one();
  }
  std::vector<float> answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

  float x[4] = {};
  const void* inputs[1] = {x};
  void* wanted[1] = {nullptr};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  JobResult result_;
  bool finished_ = false;
  std::vector<float> answers_;
  std::vector<std::function<void()>> taken_;
};

class ProgramAnswers : public ProgramHostFixture {
 protected:
  ProgramAnswers() { options_.decoupled = true; }

  Result<JobId> Ask(Reader& reader, TimePoint deadline = kNoDeadline) {
    JobSpec spec;
    spec.deadline = deadline;
    spec.inputs = reader.inputs;
    spec.outputs = reader.wanted;
    spec.client = &reader;
    return host_->Post(spec);
  }
  /// Sends x[0] answers.
  static JobTask Count(JobContext& job) {
    for (float i = 0; i < job.Input<float>(0)[0]; ++i) {
      job.Output<float>(0)[0] = i;
      co_await job.Send();
    }
    co_return Status();
  }
};

TEST_F(ProgramAnswers, AnswersComeInOrderBeforeTheEnd) {
  Open(Count);
  Reader reader;
  reader.x[0] = 3;
  ASSERT_TRUE(Ask(reader));
  EXPECT_EQ(reader.Await().outcome, Outcome::kDone);
  EXPECT_THAT(reader.answers(), ElementsAre(0, 1, 2));
  reader.Take();  // after the end: nothing happens
}

TEST_F(ProgramAnswers, AProgramPausesForAClientThatTakesNothing) {
  Open(Count);
  Reader slow, quick;
  slow.x[0] = 3 * JobContext::kMaxSent;
  quick.x[0] = 2;
  ASSERT_TRUE(Ask(slow));
  EXPECT_EQ(slow.AwaitAnswers(JobContext::kMaxSent), JobContext::kMaxSent);
  ASSERT_TRUE(Ask(quick));
  EXPECT_EQ(quick.Await().outcome, Outcome::kDone);  // the other one does not stop it
  EXPECT_EQ(slow.answers().size(), JobContext::kMaxSent);
  for (std::size_t i = 2; i <= 3; ++i) {
    slow.Take();
    EXPECT_EQ(slow.AwaitAnswers(i * JobContext::kMaxSent), i * JobContext::kMaxSent);
  }
  slow.Take();
  EXPECT_EQ(slow.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramAnswers, AProgramThatPausesIsCancelled) {
  Open(Count);
  Reader reader;
  reader.x[0] = 1e9f;
  const Result<JobId> job = Ask(reader);
  reader.AwaitAnswers(JobContext::kMaxSent);
  host_->Cancel(*job);
  EXPECT_EQ(reader.Await().outcome, Outcome::kCancelled);
}

TEST_F(ProgramAnswers, AProgramThatPausesExpires) {
  Open(Count);
  Reader reader;
  reader.x[0] = 1e9f;
  ASSERT_TRUE(Ask(reader, device_->Now() + std::chrono::milliseconds(50)));
  EXPECT_EQ(reader.Await().outcome, Outcome::kExpired);
}

TEST_F(ProgramAnswers, AProgramThatPausesForTooLongGivesItsPlaceToOthers) {
  options_.max_jobs = 1;
  options_.max_unread = std::chrono::milliseconds(30);
  Open(Count);
  Reader reader, next;
  reader.x[0] = 1e9f;
  next.x[0] = 2;
  ASSERT_TRUE(Ask(reader));
  reader.AwaitAnswers(JobContext::kMaxSent);
  reader.Take();  // from now on it takes nothing
  ASSERT_TRUE(Ask(next));
  const JobResult result = reader.Await();
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_EQ(result.error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(result.error->message, HasSubstr("none of 8 answers for 30 ms"));
  EXPECT_EQ(next.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramAnswers, AProgramThatPausesWhileOthersWaitEndsSooner) {
  options_.max_jobs = 1;
  options_.max_unread = std::chrono::hours(1);
  options_.max_unread_before_others = std::chrono::milliseconds(30);
  Open(Count);
  Reader reader, next;
  reader.x[0] = 1e9f;
  next.x[0] = 2;
  ASSERT_TRUE(Ask(reader));
  reader.AwaitAnswers(JobContext::kMaxSent);
  ASSERT_TRUE(Ask(next));
  EXPECT_THAT(reader.Await().error->message,
              HasSubstr("none of 8 answers for 30 ms (others wait)"));
  EXPECT_EQ(next.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramAnswers, AnAnswerMayBeTakenAfterTheHost) {
  Open(Count);
  Reader reader;
  reader.x[0] = 1e9f;
  ASSERT_TRUE(Ask(reader));
  reader.AwaitAnswers(JobContext::kMaxSent);
  host_.reset();
  EXPECT_EQ(reader.Await().outcome, Outcome::kCancelled);
  reader.Take();
}

TEST_F(ProgramAnswers, ACoroutineThatDoesNotAwaitItsAnswersFails) {
  Open([](JobContext& job) -> JobTask {
    for (std::uint32_t i = 0; i <= JobContext::kMaxSent; ++i) job.Send();
    co_return Status();
  });
  Reader reader;
  ASSERT_TRUE(Ask(reader));
  const JobResult result = reader.Await();
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(result.error->message, HasSubstr("await Send()"));
}

TEST_F(ProgramAnswers, OnlyADecoupledModelSendsAnswers) {
  options_.decoupled = false;
  Open(Count);
  Reader reader;
  reader.x[0] = 1;
  ASSERT_TRUE(Ask(reader));
  EXPECT_THAT(reader.Await().error->message, HasSubstr("decoupled"));
}

TEST_F(ProgramAnswers, ASignalResumesAllWhoWait) {
  JobSignal signal;
  int arrived = 0;
  Open([&](JobContext& job) -> JobTask {
    if (++arrived < 3) {
      while (arrived < 3) co_await job.Wait(signal);
    }
    signal.Notify();
    job.Output<float>(0)[0] = static_cast<float>(arrived);
    co_await job.Send();
    co_return Status();
  });
  Reader readers[3];
  for (Reader& reader : readers) ASSERT_TRUE(Ask(reader));
  for (Reader& reader : readers) {
    EXPECT_EQ(reader.Await().outcome, Outcome::kDone);
    EXPECT_THAT(reader.answers(), ElementsAre(3));
  }
}

TEST_F(ProgramAnswers, AJobThatASignalEndsMakesRoomForOneThatWaits) {
  options_.max_jobs = 2;
  JobSignal signal;
  int arrived = 0;
  Open([&](JobContext& job) -> JobTask {
    if (++arrived == 1) {
      co_await job.Wait(signal);
    } else {
      signal.Notify();
    }
    co_return Status();
  });
  Reader readers[5];
  for (Reader& reader : readers) ASSERT_TRUE(Ask(reader));
  for (Reader& reader : readers) EXPECT_EQ(reader.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramAnswers, ACoroutineThatIsCancelledCanNotifyOthers) {
  JobSignal signal;
  bool gone = false;
  struct Leaves {
    ~Leaves() {
      *gone = true;
      signal->Notify();
    }
    bool* gone;
    JobSignal* signal;
  };
  Open([&](JobContext& job) -> JobTask {
    if (job.Input<float>(0)[0] == 1) {
      const Leaves leaves{&gone, &signal};
      JobSignal never;
      co_await job.Send();
      co_await job.Wait(never);
    }
    while (!gone) co_await job.Wait(signal);
    co_return Status();
  });
  Reader first, second;
  first.x[0] = 1;
  const Result<JobId> job = Ask(first);
  ASSERT_TRUE(Ask(second));
  first.AwaitAnswers(1);
  host_->Cancel(*job);
  EXPECT_EQ(first.Await().outcome, Outcome::kCancelled);
  EXPECT_EQ(second.Await().outcome, Outcome::kDone);
}

}  // namespace
}  // namespace lagoon::testing
