// The minimum of best-effort work beside real-time work, on a simulated device without latency;
// times in units of kFigureUnit. A slice takes 100.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "sched/testing/closed_loop.h"

namespace lagoon::testing {
namespace {

constexpr double kPart = 0.05;  // a slice every 2000
constexpr double kSlice = 100;
constexpr double kLength = 19500;

std::vector<SimTask::Kernel> Kernels(std::size_t count, SimTask::Kernel kernel) {
  return std::vector<SimTask::Kernel>(count, kernel);
}

SimTask RealTime(SimTask::Kernel kernel) {
  return {"camera", JobClass::kRealTime, 0, Kernels(10, kernel)};
}

SimTask BestEffort(SimTask::Kernel kernel) {
  return {"text", JobClass::kBestEffort, 0, Kernels(20, kernel)};
}

struct Outcomes {
  int real_time = 0, best_effort = 0;  // answers
  double longest = 0;                  // real-time request
  std::uint64_t slices = 0;
  std::string overload;
};

class Minimum {
 public:
  Minimum(const std::string& scheduler, double part, std::uint32_t units = 2)
      : device_(FigureDevice(units, SimAbort::kCheck)) {
    Scheduler named = *MakeScheduler(scheduler);
    named.config.best_effort_minimum = part;
    dispatcher_ = std::make_unique<Dispatcher>(*device_, named.config, std::move(named.policy));
  }

  /// Two clients keep the real-time model busy without a pause.
  Outcomes RunSaturated(const SimTask& real_time, const SimTask& best_effort,
                        std::size_t clients = 2) {
    text_ = std::make_unique<ClosedLoop>(*device_, *dispatcher_, best_effort, clients);
    camera_ = std::make_unique<ClosedLoop>(*device_, *dispatcher_, real_time, 2);
    RunUntil(kLength);
    const Outcomes outcomes{camera_->answers(), text_->answers(),
                            static_cast<double>(camera_->longest() / kFigureUnit),
                            dispatcher_->Stats().slices, dispatcher_->TakeOverload()};
    camera_->Stop();
    text_->Stop();
    RunUntil(kLength + 1000);
    return outcomes;
  }

  /// A real-time request every `period`.
  Outcomes RunPeriodic(const SimTask& real_time, double period, const SimTask& best_effort) {
    text_ = std::make_unique<ClosedLoop>(*device_, *dispatcher_, best_effort, 1);
    instance_ = *Instance::Create(PlanOf(real_time, *device_), *device_);
    QueueOptions options;
    options.name = real_time.name;
    options.job_class = JobClass::kRealTime;
    options.instances = {instance_.get()};
    const QueueId queue = *dispatcher_->AddQueue(options);
    for (double at = 0; at < kLength; at += period) {
      RunUntil(at);
      Request& request = requests_.emplace_back();
      EXPECT_TRUE(
          dispatcher_->Post({queue, kNoDeadline, request.inputs, request.outputs, &request}));
    }
    Outcomes outcomes{0, text_->answers(), 0, dispatcher_->Stats().slices, {}};
    text_->Stop();
    RunUntil(kLength + 1000);
    for (const Request& request : requests_) outcomes.real_time += request.finished;
    return outcomes;
  }

 private:
  // In small steps, each of which lets the dispatcher look at the time, as its timer does where
  // time is real.
  void RunUntil(double time) {
    const TimePoint until = begin_ + FigureTime(time);
    while (device_->Now() < until) {
      device_->Wait(std::min(until, device_->Now() + FigureTime(0.25)));
    }
  }

  std::unique_ptr<SimDevice> device_;
  // The dispatcher uses these, so they are destroyed after it.
  std::unique_ptr<ClosedLoop> text_, camera_;
  std::unique_ptr<Instance> instance_;
  std::deque<Request> requests_;
  std::unique_ptr<Dispatcher> dispatcher_;
  const TimePoint begin_ = device_->Now();
};

class MinimumOf : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Schedulers, MinimumOf,
                         ::testing::Values("wait", "reset", "reef", "lagoon", "lagoon-ratio"));

TEST_P(MinimumOf, IsWhatARealTimeModelThatTakesAllLeaves) {
  const Outcomes without =
      Minimum(GetParam(), 0).RunSaturated(RealTime({2, 1}), BestEffort({2, 1}));
  EXPECT_EQ(without.slices, 0u);
  EXPECT_EQ(without.best_effort, 0);
  EXPECT_EQ(without.overload, "");

  const Outcomes with =
      Minimum(GetParam(), kPart).RunSaturated(RealTime({2, 1}), BestEffort({2, 1}));
  EXPECT_EQ(with.slices, 9u);
  EXPECT_NEAR(with.best_effort, 9 * kSlice / 20, 2);
  EXPECT_NEAR(with.real_time, without.real_time - 9 * kSlice / 10, 3) << "pays for slices only";
  // Two jobs of 10 and a slice.
  EXPECT_LE(with.longest, 2 * 10 + kSlice + 1);
}

TEST_P(MinimumOf, ASliceEndsWithTheWork) {
  // One client sends its next request when the slice is over.
  const Outcomes outcomes =
      Minimum(GetParam(), kPart).RunSaturated(RealTime({2, 1}), BestEffort({2, 1}), /*clients=*/1);
  EXPECT_NEAR(outcomes.best_effort, 9 * kSlice / 20, 2);
  EXPECT_NEAR(static_cast<double>(outcomes.slices), outcomes.best_effort, 2);
  EXPECT_LE(outcomes.longest, 2 * 10 + 20 + 1);
}

TEST_P(MinimumOf, IsNotTakenWhereRealTimeWorkLeavesAsMuch) {
  // The real-time model leaves 1 of every 10, and best-effort work gets it.
  const Outcomes outcomes =
      Minimum(GetParam(), kPart).RunPeriodic(RealTime({2, 0.9}), 10, BestEffort({2, 0.25}));
  EXPECT_EQ(outcomes.slices, 0u);
  EXPECT_GT(outcomes.best_effort, kPart * kLength / (20 * 0.25));
  EXPECT_EQ(outcomes.real_time, kLength / 10);
}

TEST(MinimumTest, WorkBesideRealTimeKernelsCounts) {
  // Real-time kernels leave one of two units idle.
  const Outcomes outcomes =
      Minimum("lagoon", kPart).RunSaturated(RealTime({1, 1}), BestEffort({1, 0.25}));
  EXPECT_EQ(outcomes.slices, 0u);
  EXPECT_GT(outcomes.best_effort, kPart * kLength / (20 * 0.25));
}

TEST(MinimumTest, BlocksThatAreLongerThanThePausesAreDone) {
  const auto run = [](double part) {
    return Minimum("reset", part, /*units=*/1)
        .RunPeriodic(RealTime({1, 0.9}), 10, BestEffort({1, 1.5}));
  };
  EXPECT_EQ(run(0).best_effort, 0) << "each block leaves for the next real-time request";
  const Outcomes outcomes = run(kPart);
  EXPECT_GT(outcomes.slices, 0u);
  EXPECT_GE(outcomes.best_effort, 0.8 * kPart * kLength / (20 * 1.5));
}

TEST(MinimumTest, TheDispatcherSaysWhichModelTakesTheDevice) {
  // Best-effort work has a slice of 100 in 2000.
  const Outcomes outcomes =
      Minimum("reset", kPart).RunSaturated(RealTime({2, 1}), BestEffort({2, 1}));
  EXPECT_EQ(outcomes.overload,
            "real-time models keep best-effort work waiting. Part of the last 1.00 s for which "
            "each computed: 'camera' 95 %. Best-effort work gets 5 % in slices of 10 ms, for which "
            "real-time requests wait");
}

}  // namespace
}  // namespace lagoon::testing
