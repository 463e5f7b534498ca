// The dispatcher on the CPU device with real threads: producers, workers and cancellations at once.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "base/time.h"
#include "device/cpu/cpu_device.h"
#include "sched/dispatcher.h"
#include "sched/minimum/best_effort_minimum.h"
#include "sched/testing/fake_device.h"

namespace lagoon {
namespace {

constexpr std::uint32_t kOps = 6;
constexpr std::uint32_t kBlocks = 5;

// Spins for some 8 microseconds, with a check of the guards every 200 ns.
bool CountingBody(const void*, std::uint32_t, BlockContext& context) {
  for (int i = 0; i < 40; ++i) {
    if (context.ShouldLeave()) return false;
    const TimePoint until = Now() + std::chrono::nanoseconds(200);
    while (Now() < until) {
    }
  }
  return true;
}

class RealTimeFirst final : public Policy {
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
};

// Counts how its jobs end.
class Client final : public JobClient {
 public:
  void Finished(const JobResult& result) override {
    const std::lock_guard lock(mutex_);
    ++outcomes_[static_cast<int>(result.outcome)];
    ++finished_;
    changed_.notify_all();
  }
  void AwaitFinished(int count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return finished_ >= count; }))
        << finished_ << " of " << count << " jobs finished";
  }
  int outcomes(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    return outcomes_[static_cast<int>(outcome)];
  }

  float x[4] = {}, y[4] = {};
  const void* inputs[1] = {x};
  void* outputs[1] = {y};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int outcomes_[5] = {};
  int finished_ = 0;
};

class DispatcherThreads : public ::testing::TestWithParam<SchedulerConfig> {
 protected:
  DispatcherThreads() {
    CpuDeviceOptions options;
    options.workers = 2;
    device_ = *CreateCpuDevice(options);
    auto loaded = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(kOps, kBlocks));
    const KernelHandle kernel = *device_->Load({"counting", CountingBody}, {});
    for (PlanOp& op : loaded->plan.ops) op.kernel = kernel;
    for (auto& instance : instances_) instance = *Instance::Create(loaded, *device_);
    dispatcher_ =
        std::make_unique<Dispatcher>(*device_, GetParam(), std::make_unique<RealTimeFirst>());
    real_time_ = AddQueue(JobClass::kRealTime, *instances_[0]);
    best_effort_ = AddQueue(JobClass::kBestEffort, *instances_[1]);
    other_ = AddQueue(JobClass::kBestEffort, *instances_[2]);
  }
  QueueId AddQueue(JobClass job_class, Instance& instance) {
    QueueOptions options;
    options.name = "chain";
    options.job_class = job_class;
    options.instances = {&instance};
    options.max_pending = 100000;
    return *dispatcher_->AddQueue(options);
  }
  JobId Post(QueueId queue, Client& client, TimePoint deadline = kNoDeadline) {
    return *dispatcher_->Post({queue, deadline, client.inputs, client.outputs, &client});
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Instance> instances_[3];
  std::unique_ptr<Dispatcher> dispatcher_;
  QueueId real_time_{}, best_effort_{}, other_{};
};

TEST_P(DispatcherThreads, FinishesEveryJobOfManyProducers) {
  constexpr int kJobs = 400;
  Client urgent, background, other;
  {
    std::jthread a([&] {
      for (int i = 0; i < kJobs; ++i) Post(best_effort_, background);
    });
    std::jthread b([&] {
      for (int i = 0; i < kJobs; ++i) Post(other_, other);
    });
    std::jthread c([&] {
      for (int i = 0; i < kJobs; ++i) {
        Post(real_time_, urgent);
        std::this_thread::sleep_for(
            std::chrono::microseconds(i % 7 * 50));  // spread, not synchronisation
      }
    });
  }
  urgent.AwaitFinished(kJobs);
  background.AwaitFinished(kJobs);
  other.AwaitFinished(kJobs);
  EXPECT_EQ(urgent.outcomes(Outcome::kDone), kJobs);
  EXPECT_EQ(background.outcomes(Outcome::kDone), kJobs);
  EXPECT_EQ(other.outcomes(Outcome::kDone), kJobs);
}

TEST_P(DispatcherThreads, CancelAndExpiryRaceWithCompletion) {
  constexpr int kJobs = 300;
  Client urgent, background;
  std::mt19937 random(7);
  for (int i = 0; i < kJobs; ++i) {
    const JobId job = Post(best_effort_, background);
    const auto timeout = std::chrono::microseconds(random() % 400);
    Post(real_time_, urgent, random() % 2 == 0 ? device_->Now() + timeout : kNoDeadline);
    if (random() % 2 == 0) dispatcher_->Cancel(job);
  }
  background.AwaitFinished(kJobs);
  urgent.AwaitFinished(kJobs);
  EXPECT_EQ(background.outcomes(Outcome::kDone) + background.outcomes(Outcome::kCancelled), kJobs);
  EXPECT_EQ(urgent.outcomes(Outcome::kDone) + urgent.outcomes(Outcome::kExpired), kJobs);
}

TEST_P(DispatcherThreads, SwitchesUnderLoadWithoutLosingAJob) {
  constexpr int kJobs = 300;
  Client urgent, background;
  std::atomic<int> switched{0}, refused{0};
  {
    std::jthread producer([&] {
      for (int i = 0; i < kJobs; ++i) {
        Post(best_effort_, background);
        Post(real_time_, urgent);
        // Spread, not synchronisation.
        std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * 50));
      }
    });
    for (int i = 0; i < 40; ++i) {
      const SchedulerConfig to = i % 2 == 0 ? SchedulerConfig{.name = "plain"} : GetParam();
      dispatcher_->Switch(to, std::make_unique<RealTimeFirst>(),
                          [&](const Status& status) { ++(status ? switched : refused); });
      // Spread too: some switches come while another is under way, some do not.
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }
  urgent.AwaitFinished(kJobs);
  background.AwaitFinished(kJobs);
  EXPECT_EQ(urgent.outcomes(Outcome::kDone), kJobs);
  EXPECT_EQ(background.outcomes(Outcome::kDone), kJobs);
  dispatcher_.reset();
  EXPECT_EQ(switched + refused, 40);
  EXPECT_GT(switched, 0);
}

TEST_P(DispatcherThreads, DestructionWhileRunningFinishesEverything) {
  constexpr int kJobs = 100;
  Client urgent, background;
  for (int i = 0; i < kJobs; ++i) {
    Post(best_effort_, background);
    Post(real_time_, urgent);
  }
  dispatcher_.reset();
  background.AwaitFinished(kJobs);
  urgent.AwaitFinished(kJobs);
}

// Nothing else than the dispatcher's own timer says that the slice is over: the device has no news.
TEST(DispatcherSlices, EndByTheirTime) {
  testing::FakeDevice device(64, testing::FakeDevice::Time::kReal);
  const auto plan = testing::ChainPlan(1, 1);
  const std::unique_ptr<Instance> instances[2] = {*Instance::Create(plan, device),
                                                  *Instance::Create(plan, device)};
  Client urgent, background;
  Dispatcher dispatcher(device,
                        {.name = "reset",
                         .preemption = SchedulerConfig::Preemption::kReset,
                         .best_effort_minimum = 0.9},
                        std::make_unique<RealTimeFirst>());
  QueueId queues[2];
  for (int i = 0; i < 2; ++i) {
    QueueOptions options;
    options.name = "chain";
    options.job_class = i == 0 ? JobClass::kRealTime : JobClass::kBestEffort;
    options.instances = {instances[i].get()};
    queues[i] = *dispatcher.AddQueue(options);
  }
  const auto post = [&](QueueId queue, Client& client) {
    ASSERT_TRUE(dispatcher.Post({queue, kNoDeadline, client.inputs, client.outputs, &client}));
  };
  post(queues[0], urgent);
  post(queues[1], background);
  const TimePoint owed = Now() + 2 * BestEffortMinimum::kSlice;
  while (Now() < owed) std::this_thread::yield();
  // The first request is over. The slice is due when the next one comes.
  device.quiet = true;
  device.RunAll();
  device.quiet = false;
  post(queues[0], urgent);
  EXPECT_EQ(dispatcher.Stats().slices, 1u);
  const TimePoint late = Now() + std::chrono::seconds(60);
  while (dispatcher.Stats().revocations == 0 && Now() < late) std::this_thread::yield();
  EXPECT_GT(dispatcher.Stats().revocations, 0u);
}

// On the CPU, whose idle threads would get no core.
TEST(DispatcherSlices, ComeBetweenRealTimeJobsThatLeaveNoPause) {
  constexpr int kJobs = 1500;           // 180 ms of both workers at least
  constexpr int kBackgroundJobs = 100;  // too many for the pauses that a busy machine makes
  CpuDeviceOptions options;
  options.workers = 2;
  const std::unique_ptr<Device> device = *CreateCpuDevice(options);
  auto loaded = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(kOps, kBlocks));
  for (PlanOp& op : loaded->plan.ops) op.kernel = *device->Load({"counting", CountingBody}, {});
  std::unique_ptr<Instance> instances[2];
  Client urgent, background;
  Dispatcher dispatcher(*device,
                        {.name = "reset",
                         .preemption = SchedulerConfig::Preemption::kReset,
                         .best_effort_minimum = 0.5},
                        std::make_unique<RealTimeFirst>());
  QueueId queues[2];
  for (int i = 0; i < 2; ++i) {
    instances[i] = *Instance::Create(loaded, *device);
    QueueOptions queue;
    queue.name = "chain";
    queue.job_class = i == 0 ? JobClass::kRealTime : JobClass::kBestEffort;
    queue.instances = {instances[i].get()};
    queue.max_pending = kJobs;
    queues[i] = *dispatcher.AddQueue(queue);
  }
  const auto post = [&](QueueId queue, Client& client) {
    ASSERT_TRUE(dispatcher.Post({queue, kNoDeadline, client.inputs, client.outputs, &client}));
  };
  for (int i = 0; i < kJobs; ++i) post(queues[0], urgent);
  for (int i = 0; i < kBackgroundJobs; ++i) post(queues[1], background);
  background.AwaitFinished(kBackgroundJobs);
  EXPECT_LT(urgent.outcomes(Outcome::kDone), kJobs);
  EXPECT_GE(dispatcher.Stats().slices, 1u);
  urgent.AwaitFinished(kJobs);
}

using Streams = SchedulerConfig::Streams;
using Preemption = SchedulerConfig::Preemption;
using Ranks = SchedulerConfig::Ranks;
INSTANTIATE_TEST_SUITE_P(
    Schedulers, DispatcherThreads,
    ::testing::Values(
        SchedulerConfig{
            .name = "sequential", .streams = Streams::kOne, .max_active_jobs = 1, .depth = 0},
        SchedulerConfig{.name = "streams",
                        .streams = Streams::kPerQueue,
                        .ranks = Ranks::kSubmission,
                        .depth = 0},
        SchedulerConfig{
            .name = "wait", .streams = Streams::kPerQueue, .preemption = Preemption::kWait},
        SchedulerConfig{.name = "reset", .preemption = Preemption::kReset},
        SchedulerConfig{
            .name = "slices", .preemption = Preemption::kReset, .best_effort_minimum = 0.9},
        SchedulerConfig{.name = "padding",
                        .preemption = Preemption::kReset,
                        .ranks = Ranks::kPolicy,
                        .padding_kernels = 16},
        SchedulerConfig{.name = "one_kernel", .max_kernels = 1},
        SchedulerConfig{.name = "filled",
                        .streams = Streams::kPerJob,
                        .ranks = Ranks::kSubmission,
                        .depth = 1,
                        .extra_blocks = 2}),
    [](const auto& scheduler) { return std::string(scheduler.param.name); });

}  // namespace
}  // namespace lagoon
