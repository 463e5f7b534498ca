// Models in closed loops under `lagoon`, with more models than units: SRPT alone keeps the device
// from the largest one. On a simulated device without latency; times in units of kFigureUnit.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "policies/registry.h"
#include "sched/testing/closed_loop.h"

namespace lagoon::testing {
namespace {

constexpr double kLength = 5000;

// Kernels that fill two units for 2, 0.5 and 0.2.
std::vector<SimTask> Models() {
  const auto kernels = [](std::size_t count, SimTask::Kernel kernel) {
    return std::vector<SimTask::Kernel>(count, kernel);
  };
  return {{"large", JobClass::kBestEffort, 0, kernels(20, {4, 1})},
          {"middle", JobClass::kBestEffort, 0, kernels(20, {2, 0.5})},
          {"small", JobClass::kBestEffort, 0, kernels(10, {2, 0.2})}};
}

struct Outcomes {
  std::vector<double> kernels;  // of answered requests, by model
  double useful = 0;            // part of the time that answered requests take alone
  std::uint64_t revocations = 0;
};

Outcomes RunLoops(std::string_view scheduler, std::size_t clients = 2) {
  const auto device = FigureDevice(2, SimAbort::kCheck);
  Scheduler named = *MakeScheduler(scheduler);
  std::vector<std::unique_ptr<ClosedLoop>> loops;
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  for (const SimTask& model : Models()) {
    loops.push_back(std::make_unique<ClosedLoop>(*device, dispatcher, model, clients));
  }
  const TimePoint end = device->Now() + FigureTime(kLength);
  while (device->Now() < end) device->Wait(end);
  Outcomes outcomes;
  const std::vector<SimTask> models = Models();
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto count = static_cast<double>(models[i].kernels.size());
    const SimTask::Kernel kernel = models[i].kernels.front();
    outcomes.kernels.push_back(loops[i]->answers() * count);
    outcomes.useful += outcomes.kernels.back() * kernel.blocks / 2 * kernel.time / kLength;
    loops[i]->Stop();
  }
  outcomes.revocations = dispatcher.Stats().revocations;
  while (device->Now() < end + FigureTime(kLength)) device->Wait(end + FigureTime(kLength));
  return outcomes;
}

// With one client a model has no job for a moment after each answer.
class Starvation : public ::testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Clients, Starvation, ::testing::Values(1, 2));

TEST_P(Starvation, TheThresholdBoundsHowFarAModelFallsBehind) {
  const double threshold = 100;
  const Outcomes outcomes = RunLoops("lagoon:fairness_threshold=100", GetParam());
  const auto [least, most] = std::ranges::minmax(outcomes.kernels);
  // A deficit is that to the mean of the three. A job of at most 20 kernels is not counted before
  // it ends.
  const double mean = (outcomes.kernels[0] + outcomes.kernels[1] + outcomes.kernels[2]) / 3;
  EXPECT_GT(mean, 10 * threshold) << "too short to show a bound";
  EXPECT_GE(least, mean - threshold - 2 * 20);
  EXPECT_EQ(least, outcomes.kernels[0]) << "the largest is the one that is behind";
  EXPECT_GT(most, mean);
}

// A revocation throws away at most one unfinished block on each unit.
TEST_P(Starvation, RaisingKeepsTheDeviceUseful) {
  EXPECT_GT(RunLoops("lagoon:fairness_threshold=100", GetParam()).useful, 0.85);
}

// Why there is a threshold.
TEST_P(Starvation, WithoutAThresholdTheLargestStarves) {
  const Outcomes outcomes = RunLoops("lagoon:fairness_threshold=1000000000", GetParam());
  EXPECT_LT(outcomes.kernels[0], 0.1 * outcomes.kernels[2]);
  EXPECT_EQ(outcomes.revocations, 0u);
}

}  // namespace
}  // namespace lagoon::testing
