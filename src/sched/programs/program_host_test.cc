#include "sched/programs/program_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <thread>

#include "sched/testing/program_host_fixture.h"

namespace lagoon::testing {
namespace {

using std::chrono::milliseconds;

struct ScaleArgs {
  const float* x;
  float* y;
  float factor;
};
bool ScaleBody(const void* args, std::uint32_t block, BlockContext& /*ctx*/) {
  const auto& a = *static_cast<const ScaleArgs*>(args);
  a.y[block] = a.factor * a.x[block];
  return true;
}

struct NoteArgs {
  Log* log;
  int entry;
};
bool NoteBody(const void* args, std::uint32_t /*block*/, BlockContext& /*ctx*/) {
  const auto& a = *static_cast<const NoteArgs*>(args);
  a.log->Add(a.entry);
  return true;
}

// Runs until its guard is raised. Commits once the gate is open.
struct GateArgs {
  const std::atomic<bool>* open;
};
bool GateBody(const void* args, std::uint32_t /*block*/, BlockContext& ctx) {
  const auto& a = *static_cast<const GateArgs*>(args);
  while (!a.open->load()) {
    if (ctx.ShouldLeave()) return false;
    std::this_thread::yield();
  }
  return true;
}

class ProgramHostTest : public ProgramHostFixture {
 protected:
  ~ProgramHostTest() override { open_ = true; }

  TestProgram::InitFunction LoadKernels() {
    return [this](JobSetup& setup) -> Status {
      LAGOON_ASSIGN_OR_RETURN(scale_, setup.LoadKernel("scale", ScaleBody, {}));
      LAGOON_ASSIGN_OR_RETURN(note_, setup.LoadKernel("note", NoteBody, {}));
      LAGOON_ASSIGN_OR_RETURN(gate_, setup.LoadKernel("gate", GateBody, {}));
      return {};
    };
  }

  KernelHandle scale_{}, note_{}, gate_{};
  Log log_;
  std::atomic<bool> open_{false};
};

TEST_F(ProgramHostTest, RunsKernelsAndCopiesOfARequest) {
  Open(
      [this](JobContext& job) -> JobTask {
        const std::size_t bytes = job.input(0).size();
        Result<std::byte*> x = job.Allocate(bytes), y = job.Allocate(bytes);
        if (!x || !y) co_return Fail(ErrorCode::kResourceExhausted, "no memory");
        job.CopyToDevice(*x, job.input(0).data(), bytes);
        const ScaleArgs args{reinterpret_cast<float*>(*x), reinterpret_cast<float*>(*y), 3};
        co_await job.Launch(scale_, args, 4);
        co_await job.CopyToHost(job.output(0).data(), *y, bytes);
        job.Output<float>(0)[3] += 1;  // host logic between operations
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  const JobResult& result = request.Await();
  EXPECT_EQ(result.outcome, Outcome::kDone);
  EXPECT_EQ(std::vector<float>(request.y, request.y + 4), (std::vector<float>{3, 6, 9, 13}));
  EXPECT_LE(result.posted, result.started);
  EXPECT_LE(result.started, result.first_block);
  EXPECT_LE(result.first_block, result.computed);
  EXPECT_LE(result.computed, result.finished);
}

TEST_F(ProgramHostTest, AnOutputThatIsNotWantedHasMemoryForTheProgramOnly) {
  Open(
      [this](JobContext& job) -> JobTask {
        co_await job.Launch(
            scale_, ScaleArgs{job.Input<float>(0).data(), job.Output<float>(0).data(), 2}, 4);
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  request.outputs[0] = nullptr;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramHostTest, ManyRequestsRunAndEachGetsItsOwnAnswer) {
  options_.max_pending = 1000;
  Open(
      [this](JobContext& job) -> JobTask {
        for (int step = 0; step < 5; ++step) {
          const float* from = step == 0 ? job.Input<float>(0).data() : job.Output<float>(0).data();
          co_await job.Launch(scale_, ScaleArgs{from, job.Output<float>(0).data(), 2}, 4);
        }
        co_return Status();
      },
      LoadKernels());
  std::deque<HostedRequest> requests(200);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].x[0] = static_cast<float>(i);
    ASSERT_TRUE(Post(requests[i]));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].Await().outcome, Outcome::kDone);
    EXPECT_EQ(requests[i].y[0], 32 * static_cast<float>(i));
    EXPECT_EQ(requests[i].y[1], 64);
  }
}

TEST_F(ProgramHostTest, StreamsAreInOrderAndTheDefaultStreamWaitsForThem) {
  Open(
      [&](JobContext& job) -> JobTask {
        const JobStream a = job.CreateStream(StreamKind::kBlocking);
        const JobStream b = job.CreateStream(StreamKind::kBlocking);
        job.Launch(gate_, GateArgs{&open_}, 1, a);
        for (const int entry : {1, 2}) job.Launch(note_, NoteArgs{&log_, entry}, 1, a);
        co_await job.Launch(note_, NoteArgs{&log_, 10}, 1, b);  // does not wait for the gate
        job.Launch(note_, NoteArgs{&log_, 20}, 1);              // waits for both
        job.Launch(note_, NoteArgs{&log_, 30}, 1, b);           // waits for that
        open_ = true;
        co_await job.Sync(b);
        log_.Add(40);
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_EQ(log_.entries(), (std::vector<int>{10, 1, 2, 20, 30, 40}));
}

TEST_F(ProgramHostTest, OperationsThatNobodyAwaitsAreCompleteBeforeTheAnswer) {
  Open(
      [&](JobContext& job) -> JobTask {
        for (int i = 0; i < 30; ++i) job.Launch(note_, NoteArgs{&log_, i}, 1);
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_EQ(log_.entries().size(), 30u);
}

TEST_F(ProgramHostTest, RunsAModelOfTheRepository) {
  auto loaded = std::const_pointer_cast<LoadedPlan>(ChainPlan(2, 1));
  const KernelHandle kernel = *device_->Load({"note", NoteBody}, {});
  const NoteArgs args{&log_, 7};
  for (PlanOp& op : loaded->plan.ops) {
    op.kernel = kernel;
    const auto* bytes = reinterpret_cast<const std::byte*>(&args);
    op.args.assign(bytes, bytes + sizeof(args));
  }
  const auto instance = *Instance::Create(loaded, *device_);
  QueueOptions queue;
  queue.name = "chain";
  queue.instances = {instance.get()};
  options_.models = {{"decoder", *dispatcher_->AddQueue(queue), &loaded->plan}};
  options_.parameters = {{"steps", "3"}};
  const JobModel* model = nullptr;
  int steps = 0;
  Open(
      [&](JobContext& job) -> JobTask {
        const void* const inputs[] = {job.input(0).data()};
        void* const outputs[] = {job.output(0).data()};
        for (int i = 0; i < steps; ++i) co_await job.Run(*model, inputs, outputs);
        co_return Status();
      },
      [&](JobSetup& setup) -> Status {
        EXPECT_FALSE(setup.FindModel("encoder"));
        EXPECT_FALSE(setup.Parameter("depth"));
        LAGOON_ASSIGN_OR_RETURN(model, setup.FindModel("decoder"));
        steps = std::stoi(setup.Parameter("steps").value_or("0"));
        return {};
      });
  EXPECT_EQ(model->inputs.at(0).name, "x");
  EXPECT_EQ(model->outputs.at(0).bytes(), 16u);
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_EQ(log_.entries(), std::vector<int>(6, 7));
  host_.reset();
  dispatcher_.reset();  // before the instance
}

// ---- What goes wrong

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

// In virtual time the coroutines run on the thread that brings news.
class ProgramHostInVirtualTime : public ::testing::Test {
 protected:
  ProgramHostInVirtualTime() {
    options_.name = "program";
    options_.on_callers_thread = true;
    auto program = std::make_unique<TestProgram>(
        [this](JobContext& job) -> JobTask {
          const int mine = jobs_++;
          for (int step = 0; step < 3; ++step) {
            co_await job.Launch(kernel_, NoteArgs{}, 2);
            steps_.push_back(mine);
          }
          co_return Status();
        },
        [this](JobSetup& setup) -> Status {
          LAGOON_ASSIGN_OR_RETURN(kernel_, setup.LoadKernel("note", NoteBody, {}));
          return {};
        });
    host_ = *ProgramHost::Create(options_, std::move(program), device_, *dispatcher_);
  }
  void Post(HostedRequest& request) {
    JobSpec spec;
    spec.client = &request;
    ASSERT_TRUE(host_->Post(spec));
  }

  FakeDevice device_;
  std::unique_ptr<Dispatcher> dispatcher_ = std::make_unique<Dispatcher>(
      device_, SchedulerConfig{.name = "test"}, std::make_unique<ClassFirst>());
  ProgramHostOptions options_;
  KernelHandle kernel_{};
  int jobs_ = 0;
  std::vector<int> steps_;  // the numbers of the jobs, in the order of their steps
  std::unique_ptr<ProgramHost> host_;
};

TEST_F(ProgramHostInVirtualTime, AJobIsDrivenByTheDevice) {
  HostedRequest request;
  Post(request);
  device_.RunBlock();
  EXPECT_TRUE(steps_.empty());
  device_.RunBlock();
  EXPECT_EQ(steps_, std::vector<int>{0});
  EXPECT_EQ(device_.RunAll(), 4);
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
}

TEST_F(ProgramHostInVirtualTime, OperationsOfTwoJobsInterleave) {
  HostedRequest first, second;
  Post(first);
  Post(second);
  device_.RunAll();
  EXPECT_TRUE(first.finished() && second.finished());
  EXPECT_EQ(steps_, (std::vector<int>{0, 1, 0, 1, 0, 1}));
}

}  // namespace
}  // namespace lagoon::testing
