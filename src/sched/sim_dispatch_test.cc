// The dispatcher on a simulated device, in virtual time.

#include <gtest/gtest.h>

#include "device/sim/sim_device.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {
namespace {

using std::chrono::microseconds;

// A best-effort job of 50 kernels, 100 us each on all units, and a real-time job of five kernels
// that arrives in its middle.
struct Scenario {
  JobResult best_effort, real_time;
  Nanoseconds real_time_latency{0};

  explicit Scenario(SchedulerConfig::Preemption preemption) {
    const auto device = *CreateSimDevice("mi50");
    const KernelSpec spec{0, {.time = microseconds(100)}};
    const KernelHandle kernel = *device->Load({"kernel", nullptr}, spec);
    LAGOON_CHECK(kernel == KernelHandle{});  // the handle that the fixture's plans use
    const auto slow = *Instance::Create(ChainPlan(50, 60), *device);
    const auto urgent = *Instance::Create(ChainPlan(5, 60), *device);
    SchedulerConfig config;
    config.name = "test";
    config.preemption = preemption;
    Dispatcher dispatcher(*device, config, std::make_unique<ClassFirst>());
    QueueOptions options;
    options.name = "best effort";
    options.job_class = JobClass::kBestEffort;
    options.instances = {slow.get()};
    const QueueId be = *dispatcher.AddQueue(options);
    options.name = "real time";
    options.job_class = JobClass::kRealTime;
    options.instances = {urgent.get()};
    const QueueId rt = *dispatcher.AddQueue(options);

    Request first, second;
    EXPECT_TRUE(dispatcher.Post({be, kNoDeadline, first.inputs, first.outputs, &first}));
    const TimePoint arrival = device->Now() + microseconds(1'250);
    while (device->Now() < arrival) device->Wait(arrival);
    EXPECT_TRUE(dispatcher.Post({rt, kNoDeadline, second.inputs, second.outputs, &second}));
    while (first.finished + second.finished < 2) device->Wait(kNoDeadline);
    best_effort = first.result;
    real_time = second.result;
    real_time_latency = real_time.computed - real_time.posted;
  }
};

TEST(SimDispatch, RealTimeWorkPreemptsWithinTheStepsOfTheModel) {
  const Scenario run(SchedulerConfig::Preemption::kReset);
  EXPECT_EQ(run.best_effort.outcome, Outcome::kDone);
  EXPECT_EQ(run.best_effort.revocations, 1u);
  // REEF's steps (host 3 us, word 1 us, four kernels of 7.75 us in the queue), then five kernels
  // and the gaps between them, and a few submissions by the host.
  const Nanoseconds least = microseconds(3 + 1 + 31 + 500);
  EXPECT_GE(run.real_time_latency, least);
  EXPECT_LE(run.real_time_latency, least + microseconds(15));
}

TEST(SimDispatch, WithoutPreemptionItWaitsForWhatIsQueued) {
  const Scenario run(SchedulerConfig::Preemption::kNone);
  EXPECT_EQ(run.best_effort.revocations, 0u);
  EXPECT_GE(run.real_time_latency, microseconds(550));
}

TEST(SimDispatch, RunsAreIdentical) {
  const Scenario a(SchedulerConfig::Preemption::kReset);
  const Scenario b(SchedulerConfig::Preemption::kReset);
  EXPECT_EQ(a.real_time_latency, b.real_time_latency);
  EXPECT_EQ(a.real_time.finished, b.real_time.finished);
  EXPECT_EQ(a.best_effort.finished, b.best_effort.finished);
}

}  // namespace
}  // namespace lagoon::testing
