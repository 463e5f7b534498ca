// What goes wrong with a job program or a request of it, and what its client is told.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <string>
#include <thread>

#include "sched/testing/program_host_fixture.h"

namespace lagoon::testing {
namespace {

using std::chrono::milliseconds;

TEST_F(ProgramHostTest, AnExceptionFailsTheRequestWithItsMessage) {
  Open(
      [this](JobContext& job) -> JobTask {
        co_await job.Launch(note_, NoteArgs{&log_, 1}, 1);
        throw std::runtime_error("no such word: 'foo'");
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.AwaitMessage(), "it threw: no such word: 'foo'");
}

TEST_F(ProgramHostTest, AnErrorIsTheAnswer) {
  Open([](JobContext& /*job*/) -> JobTask {
    co_return Fail(ErrorCode::kInvalidArgument, "input 'x' has no end token");
  });
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.AwaitMessage(), "input 'x' has no end token");
  EXPECT_EQ(request.Await().error->code, ErrorCode::kInvalidArgument);
}

TEST_F(ProgramHostTest, RunThatIsNoCoroutineFailsTheRequest) {
  bool throws = false;
  Open([&](JobContext& /*job*/) -> JobTask {
    if (throws) throw std::runtime_error("not today");
    return {};
  });
  HostedRequest first;
  ASSERT_TRUE(Post(first));
  EXPECT_EQ(first.AwaitMessage(), "Run() returned no coroutine");
  throws = true;
  HostedRequest second;
  ASSERT_TRUE(Post(second));
  EXPECT_EQ(second.AwaitMessage(), "Run() threw: not today");
}

TEST_F(ProgramHostTest, AWrongCallEndsTheJobAtItsNextAwait) {
  enum class Wrong { kStream, kKernel, kBlocks, kModel, kStreams };
  std::atomic<Wrong> wrong{};
  std::atomic<bool> resumed = false;
  Open(
      [&](JobContext& job) -> JobTask {
        const NoteArgs args{&log_, 1};
        switch (wrong.load()) {
          case Wrong::kStream:
            job.Launch(note_, args, 1, 5);
            break;
          case Wrong::kKernel:
            job.Launch(KernelHandle{12345}, args, 1);
            break;
          case Wrong::kBlocks:
            job.Launch(note_, args, 0);
            break;
          case Wrong::kModel:
            job.Run({}, {}, {});
            break;
          case Wrong::kStreams:
            for (int i = 0; i < 32; ++i) job.CreateStream(StreamKind::kBlocking);
            break;
        }
        co_await job.All();
        resumed = true;
        co_return Status();
      },
      LoadKernels());
  const auto message = [&](Wrong kind) {
    wrong = kind;
    HostedRequest request;
    EXPECT_TRUE(Post(request));
    return request.AwaitMessage();
  };
  EXPECT_EQ(message(Wrong::kStream), "it used stream 5, there are 1");
  EXPECT_EQ(message(Wrong::kKernel),
            "it launched 1 blocks of kernel 12345; its program has loaded none of that handle");
  EXPECT_EQ(message(Wrong::kBlocks), "it launched 0 blocks of kernel " +
                                         std::to_string(Raw(note_)) + "; at least one is needed");
  EXPECT_EQ(message(Wrong::kModel), "it ran model 0; its program has 0");
  EXPECT_EQ(message(Wrong::kStreams), "it may have 32 streams, the default one included");
  EXPECT_FALSE(resumed);
}

TEST_F(ProgramHostTest, TooManyOperationsAtOnceFailTheJob) {
  Open(
      [this](JobContext& job) -> JobTask {
        job.Launch(gate_, GateArgs{&open_}, 1);
        for (std::size_t i = 0; i < JobContext::kMaxOperations; ++i) {
          job.Launch(note_, NoteArgs{&log_, 1}, 1);
        }
        co_await job.All();
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_NE(request.AwaitMessage().find("1024 operations are issued and not complete"),
            std::string::npos);
}

// A coroutine that never finishes.
class EndlessJob : public ProgramHostTest {
 protected:
  void OpenEndless() {
    Open(
        [this](JobContext& job) -> JobTask {
          const Left left{left_};
          for (;;) co_await job.Launch(note_, NoteArgs{&log_, 1}, 1);
          co_return Status();
        },
        LoadKernels());
  }
  struct Left {
    std::atomic<int>& left;
    ~Left() { ++left; }
  };
  std::atomic<int> left_{0};  // coroutines whose frames are gone
};

TEST_F(EndlessJob, EndsAtItsDeadline) {
  OpenEndless();
  HostedRequest request;
  ASSERT_TRUE(Post(request, device_->Now() + milliseconds(20)));
  EXPECT_EQ(request.Await().outcome, Outcome::kExpired);
  host_.reset();
  EXPECT_EQ(left_, 1);
}

TEST_F(EndlessJob, EndsWhenItIsCancelled) {
  OpenEndless();
  HostedRequest request;
  const JobId job = *Post(request);
  while (log_.entries().size() < 10) std::this_thread::yield();
  host_->Cancel(job);
  EXPECT_EQ(request.Await().outcome, Outcome::kCancelled);
  host_->Cancel(job);  // the id is not known any more
  host_.reset();
  EXPECT_EQ(left_, 1);
}

TEST_F(EndlessJob, EndsAtTheLimitOfItsOperations) {
  options_.max_operations = 100;
  OpenEndless();
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.AwaitMessage(), "it has issued 100 operations, which is the most for a job");
  EXPECT_EQ(log_.entries().size(), 100u);
}

TEST_F(EndlessJob, EndsWithItsHost) {
  OpenEndless();
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  while (log_.entries().empty()) std::this_thread::yield();
  host_.reset();
  EXPECT_EQ(request.Await().outcome, Outcome::kCancelled);
  EXPECT_EQ(left_, 1);
}

TEST_F(ProgramHostTest, ACoroutineThatDoesNotComeBackIsGivenUpAndOthersGoOn) {
  options_.host_limit = milliseconds(500);
  std::atomic<bool> release{false};
  std::atomic<int> back{0};
  Open(
      [&](JobContext& job) -> JobTask {
        if (job.Input<float>(0)[0] == 0) {
          job.Launch(gate_, GateArgs{&open_}, 1);  // runs until it is revoked
          while (!release) std::this_thread::yield();
          job.Launch(note_, NoteArgs{&log_, 666}, 1);  // has no effect any more
          ++back;
          co_await job.All();
          ++back;
        }
        for (int i = 0; i < 200; ++i) co_await job.Launch(note_, NoteArgs{&log_, 1}, 1);
        co_return Status();
      },
      LoadKernels());
  HostedRequest before, stuck, after;
  stuck.x[0] = 0;
  ASSERT_TRUE(Post(before) && Post(stuck));
  EXPECT_EQ(stuck.AwaitMessage(),
            "it computed on the host for more than 500 ms without awaiting anything");
  ASSERT_TRUE(Post(after));
  EXPECT_EQ(before.Await().outcome, Outcome::kDone);
  EXPECT_EQ(after.Await().outcome, Outcome::kDone);
  host_.reset();  // does not wait for it
  release = true;
  while (back == 0) std::this_thread::yield();
  EXPECT_EQ(log_.entries(), std::vector<int>(400, 1));
}

TEST_F(ProgramHostTest, AProgramWhoseCoroutinesDoNotComeBackIsRefusedInTheEnd) {
  options_.host_limit = milliseconds(5);
  std::atomic<bool> release{false};
  std::atomic<int> back{0};
  Open([&](JobContext& /*job*/) -> JobTask {
    while (!release) std::this_thread::yield();
    ++back;
    co_return Status();
  });
  int accepted = 0;
  std::string refusal;
  std::deque<HostedRequest> requests;
  while (refusal.empty()) {
    const Result<JobId> job = Post(requests.emplace_back());
    if (job) {
      requests.back().AwaitMessage();
      ++accepted;
    } else {
      refusal = job.error().message;
    }
  }
  EXPECT_EQ(accepted, 5);
  EXPECT_NE(refusal.find("5 of its coroutines did not come back"), std::string::npos) << refusal;
  release = true;
  while (back < 5) std::this_thread::yield();
}

TEST_F(ProgramHostTest, WaitsInAQueueOfItsOwnThatIsBounded) {
  options_.max_jobs = 1;
  options_.max_pending = 2;
  Open(
      [this](JobContext& job) -> JobTask {
        log_.Add(0);
        co_await job.Launch(gate_, GateArgs{&open_}, 1);
        co_return Status();
      },
      LoadKernels());
  HostedRequest running, expiring, waiting, refused;
  ASSERT_TRUE(Post(running));
  while (log_.entries().empty()) std::this_thread::yield();
  ASSERT_TRUE(Post(expiring, device_->Now() + milliseconds(10)));
  ASSERT_TRUE(Post(waiting));
  const Result<JobId> job = Post(refused);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(job.error().message, "job program 'program' is full: 2 requests are waiting");
  EXPECT_EQ(expiring.Await().outcome, Outcome::kExpired);  // although nothing else happens
  EXPECT_FALSE(running.finished() || waiting.finished());
  EXPECT_EQ(host_->Pending(), 1u);
  open_ = true;
  EXPECT_EQ(running.Await().outcome, Outcome::kDone);
  EXPECT_EQ(waiting.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramHostTest, ARequestOfTheWrongShapeIsRefused) {
  Open([](JobContext& /*job*/) -> JobTask { co_return Status(); });
  HostedRequest request;
  JobSpec spec;
  spec.inputs = request.inputs;
  spec.client = &request;
  const Result<JobId> job = host_->Post(spec);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ProgramHostTest, AProgramThatCannotStartSaysWhy) {
  const auto run = [](JobContext& /*job*/) -> JobTask { co_return Status(); };
  const auto error = [&](TestProgram::InitFunction init) {
    const auto host = Create(run, std::move(init));
    return host ? "" : host.error().message;
  };
  EXPECT_EQ(error([](JobSetup&) -> Status { return Fail(ErrorCode::kNotFound, "no dictionary"); }),
            "job program 'program': no dictionary");
  EXPECT_EQ(error([](JobSetup&) -> Status { throw std::runtime_error("oops"); }),
            "job program 'program': Init() threw: oops");
  EXPECT_EQ(error([](JobSetup& setup) -> Status {
              LAGOON_ASSIGN_OR_RETURN(const JobModel* model, setup.FindModel("decoder"));
              static_cast<void>(model);
              return {};
            }),
            "job program 'program': no model has the role 'decoder': name one by the parameter "
            "'lagoon.model.decoder'");
  EXPECT_EQ(error([](JobSetup& setup) -> Status {
              LAGOON_ASSIGN_OR_RETURN(const KernelHandle kernel,
                                      setup.LoadKernel("k", nullptr, {}));
              static_cast<void>(kernel);
              return {};
            }),
            "job program 'program': kernel 'k' has no body");
}

}  // namespace
}  // namespace lagoon::testing
