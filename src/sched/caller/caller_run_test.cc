#include "sched/caller/caller_run.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/allocations.h"
#include "base/testing/stopper.h"
#include "device/cpu/cpu_device.h"
#include "device/forwarding_device.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ClassFirst;

// ---- On a device that runs nothing by itself

class CallerRunTest : public testing::DispatcherTest {
 protected:
  void Prepare(CallerRun& run, QueueId queue, testing::Request& tensors) {
    ASSERT_TRUE(
        run.Prepare({.queue = queue, .inputs = tensors.inputs, .outputs = tensors.outputs}));
  }
};

TEST_F(CallerRunTest, RunsAgainAndAgainWithOtherTensors) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 2, 2);
  CallerRun run(*dispatcher_);
  testing::Request a, b;
  Prepare(run, queue, a);
  EXPECT_TRUE(run.done());
  for (testing::Request* tensors : {&a, &b, &a}) {
    run.inputs()[0] = tensors->x;
    run.outputs()[0] = tensors->y;
    ASSERT_TRUE(run.Start(kNoDeadline));
    EXPECT_FALSE(run.done());
    const int before = device_->blocks_run;
    device_->RunAll();
    EXPECT_EQ(device_->blocks_run - before, 6) << "two kernels of two blocks, and two copies";
    EXPECT_TRUE(run.Wait(kNoDeadline));
    EXPECT_EQ(run.result().outcome, Outcome::kDone);
  }
}

TEST_F(CallerRunTest, EndsAtItsDeadlineAndByCancel) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 2, 2);
  CallerRun run(*dispatcher_);
  testing::Request tensors;
  Prepare(run, queue, tensors);
  run.Cancel();  // no run: ignored
  ASSERT_TRUE(run.Start(device_->Now() + milliseconds(5)));
  device_->Advance(milliseconds(5));
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.result().outcome, Outcome::kExpired);
  ASSERT_TRUE(run.Start(kNoDeadline));
  run.Cancel();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.result().outcome, Outcome::kCancelled);
  run.Cancel();
  ASSERT_TRUE(run.Start(kNoDeadline));
  device_->RunAll();
  EXPECT_EQ(run.result().outcome, Outcome::kDone) << "the earlier cancellation is over";
}

TEST_F(CallerRunTest, AFullQueueRefusesAndSaysWhyWhenAsked) {
  UseReset();
  QueueOptions options;
  options.max_pending = 1;
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1, options);
  testing::Request tensors;
  std::array<std::unique_ptr<CallerRun>, 3> runs;
  for (auto& run : runs) {
    run = std::make_unique<CallerRun>(*dispatcher_);
    Prepare(*run, queue, tensors);
  }
  EXPECT_TRUE(runs[0]->Start(kNoDeadline));  // has the instance
  EXPECT_TRUE(runs[1]->Start(kNoDeadline));
  EXPECT_FALSE(runs[2]->Start(kNoDeadline));
  EXPECT_FALSE(runs[2]->Run(kNoDeadline));
  EXPECT_TRUE(runs[2]->done());
  const Error error = dispatcher_->FullError(queue);
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(error.message, "queue 'chain' is full: 1 requests are waiting");
  device_->RunAll();
  EXPECT_TRUE(runs[0]->done() && runs[1]->done());
}

TEST_F(CallerRunTest, PrepareRefusesWhatPostRefuses) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1);
  CallerRun run(*dispatcher_);
  const Status unknown = run.Prepare({.queue = QueueId{77}, .inputs = {}, .outputs = {}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "there is no queue 77");
  const Status none = run.Prepare({.queue = queue, .inputs = {}, .outputs = {}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(CallerRunTest, ARunMayBeStartedAgainFromItsEnd) {
  struct Again final : JobClient {
    void Finished(const JobResult&) override {
      if (++finished == 4) return;
      EXPECT_TRUE(run->Start(kNoDeadline, this));
    }
    CallerRun* run = nullptr;
    int finished = 0;
  } again;
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1);
  CallerRun run(*dispatcher_);
  again.run = &run;
  testing::Request tensors;
  Prepare(run, queue, tensors);
  ASSERT_TRUE(run.Start(kNoDeadline, &again));
  device_->RunAll();
  EXPECT_EQ(again.finished, 4);
  EXPECT_TRUE(run.done());
}

TEST_F(CallerRunTest, ARunThatCannotBeStartedAgainIsOver) {
  struct Again final : JobClient {
    void Finished(const JobResult&) override {
      testing::Request tensors;
      for (CallerRun* other : others) EXPECT_TRUE(other->Start(kNoDeadline));
      EXPECT_FALSE(run->Start(kNoDeadline, this));
      ++finished;
    }
    CallerRun* run = nullptr;
    std::array<CallerRun*, 1> others{};
    int finished = 0;
  } again;
  UseReset();
  QueueOptions options;
  options.max_pending = 1;
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1, options);
  CallerRun run(*dispatcher_), other(*dispatcher_);
  testing::Request tensors;
  Prepare(run, queue, tensors);
  Prepare(other, queue, tensors);
  again.run = &run;
  again.others = {&other};
  ASSERT_TRUE(run.Start(kNoDeadline, &again));
  device_->RunAll();
  EXPECT_EQ(again.finished, 1);
  EXPECT_TRUE(run.Wait(kNoDeadline));
  EXPECT_TRUE(other.done());
}

TEST_F(CallerRunTest, AJobOfACallerIsHeldBySwitchesAndEndsWithTheDispatcher) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1);
  auto first = std::make_unique<CallerRun>(*dispatcher_);
  auto held = std::make_unique<CallerRun>(*dispatcher_);
  testing::Request tensors;
  Prepare(*first, queue, tensors);
  Prepare(*held, queue, tensors);
  ASSERT_TRUE(first->Start(kNoDeadline));
  dispatcher_->Switch(kReset, std::make_unique<ClassFirst>(), [](const Status&) {});
  ASSERT_TRUE(held->Start(kNoDeadline));
  EXPECT_FALSE(held->done());
  device_->RunAll();
  EXPECT_EQ(held->result().outcome, Outcome::kDone);
  ASSERT_TRUE(held->Start(kNoDeadline));
  device_->Lose();
  EXPECT_EQ(held->result().outcome, Outcome::kFailed);
}

TEST_F(CallerRunTest, ARunThatIsPostedWhileItsFlagIsSetIsCancelled) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, 1);
  std::atomic<bool> cancelled{true};
  CallerRun run(*dispatcher_, &cancelled);
  testing::Request tensors;
  Prepare(run, queue, tensors);
  ASSERT_TRUE(run.Start(kNoDeadline));
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.result().outcome, Outcome::kCancelled);
  EXPECT_EQ(dispatcher_->Pending(queue), 0u);
  cancelled = false;
  ASSERT_TRUE(run.Start(kNoDeadline));
  EXPECT_FALSE(run.done());
  device_->RunAll();
  EXPECT_EQ(run.result().outcome, Outcome::kDone);
}

// ---- On threads

// Its job ends when its guard is raised, if `stays`. Those on other threads than the caller's do so
// if `others_stay`, until one has left.
struct BodyArgs {
  std::atomic<bool> stays{false}, others_stay{false};
  std::atomic<int> staying{0};
  std::atomic<int> blocks{0}, by_caller{0};
  std::atomic<std::thread::id> caller{};
};
BodyArgs body;

bool TheBody(const void*, std::uint32_t, BlockContext& context) {
  const bool by_caller = std::this_thread::get_id() == body.caller.load();
  while (body.stays.load() || (body.others_stay.load() && !by_caller)) {
    body.staying.store(1);
    if (!context.ShouldLeave()) continue;
    body.others_stay.store(false);  // a worker that has left may take a block of the other job
    return false;
  }
  body.blocks.fetch_add(1);
  if (by_caller) body.by_caller.fetch_add(1);
  return true;
}

// How often the threads of this name have slept or were replaced.
std::uint64_t SwitchesOf(const std::string& name) {
  std::uint64_t sum = 0;
  for (const pid_t thread : ThreadsNamed(name)) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(status, line);) {
      const std::size_t at = line.find("ctxt_switches:");
      if (at != std::string::npos) sum += std::stoull(line.substr(at + 14));
    }
  }
  return sum;
}

// Waits until the threads of this name sleep: until their switches stay as they are for a while.
std::uint64_t Settled(const std::string& name) {
  for (std::uint64_t before = SwitchesOf(name);;) {
    std::this_thread::sleep_for(milliseconds(20));  // a wrong guess costs another round
    const std::uint64_t now = SwitchesOf(name);
    if (now == before) return now;
    before = now;
  }
}

class CallerThreads : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kOps = 6, kBlocks = 3;
  static constexpr int kBlocksOfARun = kOps * kBlocks;
  static constexpr SchedulerConfig kReset = {.name = "reset",
                                             .preemption = SchedulerConfig::Preemption::kReset};

  CallerThreads() {
    body.stays = body.others_stay = false;
    body.blocks = body.by_caller = body.staying = 0;
    body.caller = std::this_thread::get_id();
    Use(*CreateCpuDevice({.workers = 2}), Nanoseconds(0));
  }
  ~CallerThreads() override { Clear(); }
  void Clear() {
    runs_.clear();
    dispatcher_.reset();
    device_.reset();
    instances_.clear();
  }
  /// `block`: what the plan says of the time of a block. 0: nothing.
  void Use(std::unique_ptr<Device> device, Nanoseconds block) {
    Clear();
    device_ = std::move(device);
    loaded_ = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(kOps, kBlocks));
    const KernelHandle kernel = *device_->Load({"body", TheBody}, {});
    for (PlanOp& op : loaded_->plan.ops) {
      op.kernel = kernel;
      op.cost = {.kernel = block, .block = block};
    }
    dispatcher_ = std::make_unique<Dispatcher>(*device_, kReset, std::make_unique<ClassFirst>());
  }
  QueueId AddQueue(JobClass job_class, std::size_t instances = 1, QueueOptions options = {}) {
    options.name = "chain";
    options.job_class = job_class;
    for (std::size_t i = 0; i < instances; ++i) {
      options.instances.push_back(
          instances_.emplace_back(*Instance::Create(loaded_, *device_)).get());
    }
    return *dispatcher_->AddQueue(options);
  }
  /// Returns when a block of the run is in its body, and stays there.
  void StartAndStay(CallerRun& run) {
    body.others_stay = true;
    ASSERT_TRUE(run.Start(kNoDeadline));
    while (body.staying.load() == 0) std::this_thread::yield();
  }
  CallerRun& Prepared(QueueId queue) {
    CallerRun& run = *runs_.emplace_back(std::make_unique<CallerRun>(*dispatcher_));
    const testing::Request& own = tensors_.emplace_back();
    EXPECT_TRUE(run.Prepare({.queue = queue, .inputs = own.inputs, .outputs = own.outputs}));
    return run;
  }

  std::deque<testing::Request> tensors_;  // of each run
  std::shared_ptr<LoadedPlan> loaded_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<CallerRun>> runs_;
};

// Costs that are observed may be large on a busy machine, but not beyond an hour.
constexpr CallerOptions kInline = {.inline_below = std::chrono::hours(1)};

TEST_F(CallerThreads, ASmallPlanRunsOnItsCallerAndWakesNoThread) {
  Use(*CreateCpuDevice({.workers = 2}), microseconds(1));
  CallerRun& run = Prepared(AddQueue(JobClass::kRealTime));
  const std::uint64_t timer = Settled("lagoon-timer");
  const std::uint64_t news = Settled("lagoon-news");
  const std::uint64_t workers = Settled("lagoon-cpu");
  constexpr int kRuns = 1000;
  for (int i = 0; i < kRuns; ++i) {
    const TimePoint deadline = i % 2 == 0 ? kNoDeadline : Now() + std::chrono::hours(1);
    ASSERT_TRUE(run.Run(deadline, kInline));
    ASSERT_EQ(run.result().outcome, Outcome::kDone);
  }
  EXPECT_EQ(body.by_caller.load(), kRuns * kBlocksOfARun);
  EXPECT_EQ(SwitchesOf("lagoon-cpu"), workers);
  EXPECT_EQ(SwitchesOf("lagoon-timer"), timer);
  EXPECT_EQ(SwitchesOf("lagoon-news"), news);
}

TEST_F(CallerThreads, AShortJobRunsBesideBackgroundWorkAndRevokesNothing) {
  Use(*CreateCpuDevice({.workers = 2}), microseconds(1));
  CallerRun& urgent = Prepared(AddQueue(JobClass::kRealTime));
  CallerRun& background = Prepared(AddQueue(JobClass::kBestEffort));
  StartAndStay(background);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(urgent.Run(kNoDeadline, kInline));
    ASSERT_EQ(urgent.result().outcome, Outcome::kDone);
  }
  EXPECT_EQ(body.by_caller.load(), 20 * kBlocksOfARun);
  EXPECT_EQ(dispatcher_->Stats().revocations, 0u);
  EXPECT_FALSE(background.done());
  // One that takes longer gets the device.
  ASSERT_TRUE(urgent.Run(kNoDeadline, {.inline_below = Nanoseconds(0)}));
  EXPECT_EQ(dispatcher_->Stats().revocations, 1u);
  body.others_stay = false;
  EXPECT_TRUE(background.Wait(kNoDeadline));
  EXPECT_EQ(background.result().outcome, Outcome::kDone);
  EXPECT_EQ(background.result().revocations, 1u);
}

// Threads that are not in the background give no core away.
TEST_F(CallerThreads, AShortJobRevokesBestEffortWorkThatBeganBeforeThereWasRealTimeWork) {
  Use(*CreateCpuDevice({.workers = 2}), microseconds(1));
  QueueOptions options;
  options.units = {0, 1};
  CallerRun& best_effort = Prepared(AddQueue(JobClass::kBestEffort, 1, options));
  StartAndStay(best_effort);
  CallerRun& urgent = Prepared(AddQueue(JobClass::kRealTime));
  ASSERT_TRUE(urgent.Run(kNoDeadline, kInline));
  EXPECT_EQ(urgent.result().outcome, Outcome::kDone);
  EXPECT_EQ(dispatcher_->Stats().revocations, 1u);
  body.others_stay = false;
  EXPECT_TRUE(best_effort.Wait(kNoDeadline));
}

TEST_F(CallerThreads, ACallerThatDoesNotWorkGetsItsResultFromWorkers) {
  CallerRun& run = Prepared(AddQueue(JobClass::kRealTime));
  for (int i = 0; i < 200; ++i) {
    const CallerOptions options{.works = false, .spin = microseconds(i % 50)};
    ASSERT_TRUE(run.Run(kNoDeadline, options));
    ASSERT_EQ(run.result().outcome, Outcome::kDone);
  }
  EXPECT_EQ(body.by_caller.load(), 0);
  EXPECT_EQ(body.blocks.load(), 200 * kBlocksOfARun);
}

TEST_F(CallerThreads, AJobEndsAtItsDeadline) {
  CallerRun& run = Prepared(AddQueue(JobClass::kRealTime));
  for (const bool works : {true, false}) {
    const std::uint64_t timer = Settled("lagoon-timer");
    body.stays = true;
    const TimePoint due = Now() + milliseconds(5);
    ASSERT_TRUE(run.Run(due, {.works = works, .inline_below = std::chrono::hours(1)}));
    EXPECT_EQ(run.result().outcome, Outcome::kExpired);
    EXPECT_GE(Now(), due);
    body.stays = false;
    ASSERT_TRUE(run.Run(kNoDeadline));
    EXPECT_EQ(run.result().outcome, Outcome::kDone);
    // A caller that sleeps ends its job itself. One that works may be in a block for long.
    EXPECT_EQ(SwitchesOf("lagoon-timer") == timer, !works);
  }
}

TEST_F(CallerThreads, AnotherThreadCancels) {
  CallerRun& run = Prepared(AddQueue(JobClass::kRealTime));
  for (const bool works : {true, false}) {
    body.stays = true;
    std::atomic<bool> over{false};
    std::jthread other([&] {
      while (!over.load()) run.Cancel();
    });
    ASSERT_TRUE(run.Run(kNoDeadline, {.works = works}));
    over.store(true);
    EXPECT_EQ(run.result().outcome, Outcome::kCancelled);
  }
}

TEST_F(CallerThreads, MoreCallersThanUnitsBesideBestEffortJobs) {
  const QueueId urgent = AddQueue(JobClass::kRealTime, 2);
  const QueueId background = AddQueue(JobClass::kBestEffort, 2);
  constexpr int kRuns = 300, kBestEffortRuns = 30;  // threads of the idle class may wait for long
  std::atomic<int> done{0}, late{0};
  std::vector<CallerRun*> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(&Prepared(i < 4 ? urgent : background));
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      callers.emplace_back([&, i] {
        std::mt19937 random(static_cast<std::uint32_t>(i));
        CallerRun& run = *runs[i];
        for (int k = 0; k < (i < 4 ? kRuns : kBestEffortRuns); ++k) {
          const bool has_deadline = random() % 4 == 0;
          const TimePoint due = has_deadline ? Now() + microseconds(random() % 300) : kNoDeadline;
          const CallerOptions options{
              .works = random() % 4 != 0,
              .inline_below = random() % 2 == 0 ? std::chrono::hours(1) : std::chrono::hours(0),
              .spin = microseconds(random() % 30)};
          if (random() % 3 == 0) {
            ASSERT_TRUE(run.Start(due));
            while (!run.Wait(Now() + microseconds(random() % 200), options)) {
            }
          } else {
            ASSERT_TRUE(run.Run(due, options));
          }
          const Outcome outcome = run.result().outcome;
          ASSERT_TRUE(outcome == Outcome::kDone || (has_deadline && outcome == Outcome::kExpired));
          (outcome == Outcome::kDone ? done : late).fetch_add(1);
        }
      });
    }
  }
  EXPECT_EQ(done + late, 4 * kRuns + 2 * kBestEffortRuns);
  EXPECT_GE(body.blocks.load(), done.load() * kBlocksOfARun);
}

TEST_F(CallerThreads, ACallerKeepsToTheShareOfItsQueue) {
  QueueOptions options;
  options.units = {1, 1};
  const QueueId queue = AddQueue(JobClass::kRealTime, 1, options);
  CallerRun& run = Prepared(queue);
  for (int i = 0; i < 200; ++i) {
    if (i % 20 == 10) {
      ASSERT_TRUE(dispatcher_->MoveShare(queue, {i % 40 == 10 ? 0u : 1u, 1}));
    }
    ASSERT_TRUE(run.Run(kNoDeadline, kInline));
    ASSERT_EQ(run.result().outcome, Outcome::kDone);
  }
  EXPECT_EQ(body.blocks.load(), 200 * kBlocksOfARun);
  EXPECT_GT(body.by_caller.load(), 0);
}

// With every 50th run missing its deadline.
TEST_F(CallerThreads, ARunAllocatesNothing) {
#ifdef LAGOON_COUNTS_ALLOCATIONS
  CallerRun& run = Prepared(AddQueue(JobClass::kRealTime));
  constexpr int kRuns = 10'000, kFirst = 100;
  std::uint64_t before = 0;
  int missed = 0;
  for (int i = 0; i < kFirst + kRuns; ++i) {
    if (i == kFirst) before = allocations.load();
    const bool misses = i % 50 == 7;
    body.stays = misses;
    const TimePoint due = misses ? Now() + microseconds(30) : kNoDeadline;
    if (i % 4 == 0) {
      ASSERT_TRUE(run.Start(due));
      ASSERT_TRUE(run.Wait(kNoDeadline));
    } else {
      ASSERT_TRUE(run.Run(due, {.works = i % 3 != 0, .spin = microseconds(i % 2 * 20)}));
    }
    missed += run.result().outcome == Outcome::kExpired ? 1 : 0;
  }
  EXPECT_EQ(allocations.load() - before, 0u);
  EXPECT_EQ(missed, (kFirst + kRuns) / 50);
#else
  GTEST_SKIP() << "the sanitizer has an operator new of its own";
#endif
}

// Reports that the device is lost, in the middle of a block.
class LosableDevice final : public ForwardingDevice {
 public:
  explicit LosableDevice(std::unique_ptr<Device> device)
      : ForwardingDevice(*device), owned_(std::move(device)) {}
  void SetListener(DeviceListener* listener) override {
    listener_ = listener;
    ForwardingDevice::SetListener(listener);
  }
  std::size_t Poll(std::span<DeviceEvent> events) override {
    if (!lost_.exchange(false)) return ForwardingDevice::Poll(events);
    events[0] = {DeviceEvent::Kind::kLost, LaunchId{}, Now()};
    return 1;
  }
  void Lose() {
    lost_ = true;
    listener_->OnDeviceNews();
  }

 private:
  std::unique_ptr<Device> owned_;
  DeviceListener* listener_ = nullptr;
  std::atomic<bool> lost_{false};
};

TEST_F(CallerThreads, ACallerReturnsWhenTheDeviceIsLostWhileItHelps) {
  auto losable = std::make_unique<LosableDevice>(*CreateCpuDevice({.workers = 2}));
  LosableDevice& device = *losable;
  Use(std::move(losable), microseconds(1));
  CallerRun& run = Prepared(AddQueue(JobClass::kRealTime));
  Settled("lagoon-cpu");
  body.stays = true;
  std::jthread other([&] {
    while (device.Times().busy == Nanoseconds(0)) std::this_thread::yield();
    device.Lose();
    body.stays = false;
  });
  ASSERT_TRUE(run.Run(kNoDeadline, kInline));
  EXPECT_EQ(run.result().outcome, Outcome::kFailed);
}

}  // namespace
}  // namespace lagoon
