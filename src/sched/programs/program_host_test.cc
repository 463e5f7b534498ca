#include "sched/programs/program_host.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sched/testing/program_host_fixture.h"

namespace lagoon::testing {
namespace {

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

TEST_F(ProgramHostTest, FillsMemoryAndWaitsForEventsOfOtherStreams) {
  Open(
      [](JobContext& job) -> JobTask {
        constexpr std::size_t kBytes = 3 * kCopyChunkBytes + 8;
        Result<std::byte*> memory = job.Allocate(kBytes);
        if (!memory) co_return Fail(ErrorCode::kResourceExhausted, "no memory");
        const JobStream a = job.CreateStream(StreamKind::kNonBlocking);
        const JobStream b = job.CreateStream(StreamKind::kNonBlocking);
        const JobEvent filled = job.CreateEvent();
        job.Fill(*memory, 0xff, kBytes, a);
        job.Fill(*memory, 0, kBytes - 8, a);
        job.Fill(*memory, 7, 0, a);  // nothing
        job.Record(filled, a);
        job.WaitFor(filled, b);
        co_await job.CopyToHost(job.output(0).data(), *memory + kBytes - 16, 16, b);
        co_return Status();
      },
      LoadKernels());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  const auto* bytes = reinterpret_cast<const unsigned char*>(request.y);
  EXPECT_EQ(std::vector<int>(bytes, bytes + 16),
            (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}));
}

TEST_F(ProgramHostTest, WrongEventsAndFillsFailTheJob) {
  using Wrong = void (*)(JobContext&);
  const std::pair<Wrong, const char*> wrongs[] = {
      {[](JobContext& job) { job.Record(0); }, "it used event 0 on stream 0"},
      {[](JobContext& job) { job.WaitFor(job.CreateEvent(), 9); }, "event 0 on stream 9"},
      {[](JobContext& job) { job.Fill(nullptr, 0, 4); }, "it filled 4 null bytes"},
      {[](JobContext& job) { job.Fill(job.output(0).data(), 0, ~std::size_t{0}); }, "the most is"},
      {[](JobContext& job) {
         for (int i = 0; i < 1025; ++i) job.CreateEvent();
       },
       "it may have 1024 events"},
  };
  for (const auto& [wrong, message] : wrongs) {
    Open(
        [wrong = wrong](JobContext& job) -> JobTask {
          wrong(job);
          co_await job.All();
          co_return Status();
        },
        LoadKernels());
    HostedRequest request;
    ASSERT_TRUE(Post(request));
    const JobResult& result = request.Await();
    EXPECT_EQ(result.outcome, Outcome::kFailed);
    ASSERT_NE(result.error, nullptr);
    EXPECT_NE(result.error->message.find(message), std::string::npos) << result.error->message;
  }
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
  options_.models = {{"decoder", *dispatcher_->AddQueue(queue), loaded}};
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

struct AddOneArgs {
  float* x;
};
bool AddOneBody(const void* args, std::uint32_t block, BlockContext& /*ctx*/) {
  static_cast<const AddOneArgs*>(args)->x[block] += 1;
  return true;
}

/// Programs with a model that adds one to "x", in the place of "x", and a second input "z".
class ProgramInstances : public ProgramHostTest {
 protected:
  ProgramInstances() {
    auto loaded = std::make_shared<LoadedPlan>();
    Plan& plan = loaded->plan;
    PlanOp& op = plan.ops.emplace_back();
    op.name = op.kernel_name = "add_one";
    op.kernel = *device_->Load({"add_one", AddOneBody}, {});
    op.blocks = 4;
    op.args.resize(sizeof(AddOneArgs));
    op.relocations = {{0, Region::kArena, 0}};
    plan.inputs = {{{"x", DataType::kFloat32, {4}}, {Region::kArena, 0, 16}, {0}},
                   {{"z", DataType::kFloat32, {4}}, {Region::kArena, 64, 16}, {0}}};
    plan.outputs = {{{"y", DataType::kFloat32, {4}}, {Region::kArena, 0, 16}, {0}}};
    plan.arena_bytes = 128;
    instance_ = *Instance::Create(loaded, *device_);
    QueueOptions queue;
    queue.name = "counter";
    queue.instances = {instance_.get()};
    options_.models = {
        {"counter", *dispatcher_->AddQueue(queue), loaded, [this](const JobResult&) { ++runs_; }}};
  }
  ~ProgramInstances() override {
    host_.reset();
    dispatcher_.reset();  // before the instance
  }
  TestProgram::InitFunction MakeOwn() {
    return [this](JobSetup& setup) -> Status {
      LAGOON_ASSIGN_OR_RETURN(model_, setup.FindModel("counter"));
      LAGOON_ASSIGN_OR_RETURN(own_, setup.MakeInstance(*model_));
      return {};
    };
  }
  std::string MessageOf(TestProgram::RunFunction run) {
    Open(std::move(run), MakeOwn());
    HostedRequest request;
    EXPECT_TRUE(Post(request));
    return request.AwaitMessage();
  }

  std::unique_ptr<Instance> instance_;
  const JobModel* model_ = nullptr;
  JobInstance* own_ = nullptr;
  int runs_ = 0;
};

TEST_F(ProgramInstances, AnInputThatAnOutputReplacesStaysOnTheDevice) {
  Open(
      [this](JobContext& job) -> JobTask {
        const void* x = job.input(0).data();
        void* const y = job.output(0).data();
        const std::vector<const void*> whole{x, x}, kept{nullptr, x};
        const std::vector<void*> none{nullptr}, wanted{y};
        co_await job.Run(*own_, whole, none);
        co_await job.Run(*model_, whole, none);  // another instance: changes nothing here
        co_await job.Run(*own_, kept, none);
        job.CopyToDevice(own_->input(0) + 4, x, 4);
        co_await job.Run(*own_, kept, wanted);
        co_return Status();
      },
      MakeOwn());
  EXPECT_EQ(model_->replaces, std::vector<std::optional<std::size_t>>{0});
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_EQ(std::vector<float>(request.y, request.y + 4), (std::vector<float>{4, 2, 6, 7}));
  EXPECT_EQ(runs_, 4);
}

TEST_F(ProgramInstances, ItsMemoryIsZeroAtFirst) {
  Open(
      [this](JobContext& job) -> JobTask {
        const std::vector<const void*> kept{nullptr, job.input(0).data()};
        const std::vector<void*> wanted{job.output(0).data()};
        co_await job.Run(*own_, kept, wanted);
        co_return Status();
      },
      MakeOwn());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_EQ(std::vector<float>(request.y, request.y + 4), (std::vector<float>{1, 1, 1, 1}));
}

TEST_F(ProgramInstances, BytesOfAnInputAreCleared) {
  Open(
      [this](JobContext& job) -> JobTask {
        const void* x = job.input(0).data();
        const std::vector<const void*> whole{x, x}, kept{nullptr, x};
        const std::vector<void*> none{nullptr}, wanted{job.output(0).data()};
        co_await job.Run(*own_, whole, none);
        EXPECT_TRUE(own_->Clear(0, 4, 8));
        EXPECT_FALSE(own_->Clear(0, 12, 8));
        EXPECT_FALSE(own_->Clear(0, 20, 0));
        EXPECT_FALSE(own_->Clear(0, 8, ~std::size_t{0}));
        const JobWait run = job.Run(*own_, kept, wanted);
        EXPECT_FALSE(own_->Clear(0, 0, 4));
        co_await run;
        EXPECT_TRUE(own_->Clear(0, 0, 0));
        co_return Status();
      },
      MakeOwn());
  HostedRequest request;
  ASSERT_TRUE(Post(request));
  EXPECT_EQ(request.Await().outcome, Outcome::kDone);
  EXPECT_EQ(std::vector<float>(request.y, request.y + 4), (std::vector<float>{3, 1, 1, 6}));
}

TEST_F(ProgramInstances, OtherInputsMustBeThere) {
  EXPECT_EQ(MessageOf([this](JobContext& job) -> JobTask {
              const std::vector<const void*> inputs{job.input(0).data(), nullptr};
              const std::vector<void*> none{nullptr};
              co_await job.Run(*own_, inputs, none);
              co_return Status();
            }),
            "it ran model 'counter' without input 'z', which no output replaces");
}

TEST_F(ProgramInstances, AModelWithoutAnInstanceNeedsAllInputs) {
  EXPECT_EQ(MessageOf([this](JobContext& job) -> JobTask {
              const std::vector<const void*> inputs{nullptr, job.input(0).data()};
              const std::vector<void*> none{nullptr};
              co_await job.Run(*model_, inputs, none);
              co_return Status();
            }),
            "it ran model 'counter' without input 'x', and not on an instance of its own");
}

TEST_F(ProgramInstances, RunsOnceAtATime) {
  EXPECT_EQ(MessageOf([this](JobContext& job) -> JobTask {
              const std::vector<const void*> inputs(2, job.input(0).data());
              const std::vector<void*> none{nullptr};
              job.Run(*own_, inputs, none);
              co_await job.Run(*own_, inputs, none);
              co_return Status();
            }),
            "it ran an instance of model 'counter' that runs: await the run before");
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
  void Post(HostedRequest& request, TimePoint deadline = kNoDeadline) {
    JobSpec spec;
    spec.deadline = deadline;
    spec.client = &request;
    ASSERT_TRUE(host_->Post(spec));
  }

  FakeDevice device_;
  std::unique_ptr<Dispatcher> dispatcher_ = std::make_unique<Dispatcher>(
      device_, SchedulerConfig{.name = "test", .admit_by_deadline = true},
      std::make_unique<ClassFirst>());
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

// The first request shows what an operation costs. The second one's first operation is refused.
TEST_F(ProgramHostInVirtualTime, ARequestThatWouldBeLateSaysHowLongItWouldTake) {
  HostedRequest first, late;
  Post(first);
  while (device_.RunBlock()) device_.Advance(std::chrono::microseconds(100));
  ASSERT_TRUE(first.finished());
  Post(late, device_.Now() + std::chrono::microseconds(1));
  ASSERT_TRUE(late.finished());
  EXPECT_EQ(late.Await().outcome, Outcome::kTooLate);
  EXPECT_GT(late.Await().expected, std::chrono::microseconds(1));
}

/// Shortest remaining time first, one kernel on the device at a time.
class SrptPolicy final : public Policy {
  JobOrders orders() const override { return {By::kRemaining, By::kRemaining}; }
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First(), 1);
  }
};

// Jobs of 10 steps of 100 us, of which two pause after `pause` steps until another one goes on.
class ProgramsByRemainingTime : public ::testing::Test {
 protected:
  static constexpr int kSteps = 10;

  ProgramsByRemainingTime() {
    options_.name = "program";
    options_.on_callers_thread = true;
    auto program = std::make_unique<TestProgram>(
        [this](JobContext& job) -> JobTask { return Steps(job, jobs_++); },
        [this](JobSetup& setup) -> Status {
          LAGOON_ASSIGN_OR_RETURN(kernel_, setup.LoadKernel("note", NoteBody, {}));
          return {};
        });
    host_ = *ProgramHost::Create(options_, std::move(program), device_, *dispatcher_);
  }

  JobTask Steps(JobContext& job, std::size_t number) {
    const int pause = pauses_.at(number);
    if (pause < 0) {  // has the device while the others go on
      job.Launch(kernel_, NoteArgs{}, 2);
      go_on_.Notify();
      co_return {};
    }
    for (int step = 1; step <= kSteps; ++step) {
      if (pause > 0 && step == pause) co_await job.Wait(go_on_);
      co_await job.Launch(kernel_, NoteArgs{}, 2);
      steps_.emplace_back(number, step);
    }
    co_return {};
  }

  void Post(HostedRequest& request) {
    JobSpec spec;
    spec.client = &request;
    ASSERT_TRUE(host_->Post(spec));
  }
  // A step takes 100 us: from its first block to its second one.
  void RunAll() {
    while (device_.RunBlock()) device_.Advance(std::chrono::microseconds(100));
  }

  FakeDevice device_;
  std::unique_ptr<Dispatcher> dispatcher_ = std::make_unique<Dispatcher>(
      device_, SchedulerConfig{.name = "srpt", .max_kernels = 1}, std::make_unique<SrptPolicy>());
  ProgramHostOptions options_;
  KernelHandle kernel_{};
  JobSignal go_on_;
  std::size_t jobs_ = 0;
  std::vector<int> pauses_;                         // by job; -1: see Steps()
  std::vector<std::pair<std::size_t, int>> steps_;  // job and step, in their order
  std::unique_ptr<ProgramHost> host_;
};

// To the kernels alone both jobs look the same: a step of 100 us.
TEST_F(ProgramsByRemainingTime, TheJobAtStepNineGoesBeforeTheOneAtStepTwo) {
  pauses_ = {0, 2, 9, -1};
  std::deque<HostedRequest> requests(4);
  Post(requests[0]);  // from which the mean is known
  RunAll();
  ASSERT_TRUE(requests[0].finished());
  Post(requests[1]);
  RunAll();
  Post(requests[2]);
  RunAll();
  steps_.clear();
  Post(requests[3]);
  RunAll();
  for (HostedRequest& request : requests) EXPECT_TRUE(request.finished());
  ASSERT_EQ(steps_.size(), 2u + 9u);
  EXPECT_EQ(steps_[0], std::pair(std::size_t{2}, 9));
  // The device goes on before the program's thread has posted the next step.
  EXPECT_EQ(steps_[1], std::pair(std::size_t{1}, 2));
  EXPECT_EQ(steps_[2], std::pair(std::size_t{2}, 10));
}

// Requests that a client gave up say nothing of how long a whole one takes.
TEST_F(ProgramsByRemainingTime, OnlyJobsThatCameToTheirEndCount) {
  pauses_ = {2, 0, 6, 9, -1};
  std::deque<HostedRequest> requests(5);
  JobSpec spec;
  spec.client = &requests[0];
  const Result<JobId> first = host_->Post(spec);
  ASSERT_TRUE(first);
  RunAll();
  host_->Cancel(*first);
  ASSERT_TRUE(requests[0].finished());
  Post(requests[1]);
  RunAll();
  Post(requests[2]);
  Post(requests[3]);
  RunAll();
  steps_.clear();
  Post(requests[4]);
  RunAll();
  ASSERT_EQ(steps_.size(), 2u + 5u);
  EXPECT_EQ(steps_[0], std::pair(std::size_t{3}, 9));
}

}  // namespace
}  // namespace lagoon::testing
