// Best-effort models in closed loops in the background of a real-time model, on a simulated device
// of two units: which part of the device's time each model gets. Times in units of kFigureUnit.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "sched/testing/closed_loop.h"

namespace lagoon::testing {
namespace {

constexpr double kLength = 50000;
constexpr std::size_t kKernels = 50;

SimTask Model(const std::string& name, JobClass job_class, SimTask::Kernel kernel) {
  return {name, job_class, 0, std::vector<SimTask::Kernel>(kKernels, kernel)};
}

// Alone on both units a segmentation takes 220, an encoder 30, and the camera's model 150.
SimTask Segmentation() { return Model("segmentation", JobClass::kBestEffort, {8, 1.1}); }
SimTask Encoder() { return Model("encoder", JobClass::kBestEffort, {4, 0.3}); }
SimTask Camera() { return Model("camera", JobClass::kRealTime, {2, 3}); }

std::unique_ptr<SimDevice> DeviceWithBackground() {
  SimDeviceOptions options;
  options.gpu = sim_testing::Ideal(2);
  options.gpu.constants.copy_bytes_per_us = 1'000'000;  // copies take no time
  options.abort = SimAbort::kCheck;
  options.background = true;
  return sim_testing::Make(options);
}

/// A real-time request every 500, and `models` in closed loops, the last `late` of them from the
/// middle on. Returns the device time of each one from the middle on, as a part of an equal share.
std::vector<double> PartsOfEqualShares(const std::string& scheduler,
                                       const std::vector<SimTask>& models, std::size_t late) {
  const std::unique_ptr<SimDevice> device = DeviceWithBackground();
  std::vector<std::unique_ptr<ClosedLoop>> loops;
  std::deque<Request> requests;
  const std::unique_ptr<Instance> instance = *Instance::Create(PlanOf(Camera(), *device), *device);
  Scheduler named = *MakeScheduler(scheduler);
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  QueueOptions options;
  options.name = "camera";
  options.job_class = JobClass::kRealTime;
  options.instances = {instance.get()};
  const QueueId camera = *dispatcher.AddQueue(options);
  const auto begin_loops = [&](std::size_t count) {
    while (loops.size() < count) {
      loops.push_back(std::make_unique<ClosedLoop>(*device, dispatcher, models[loops.size()], 1));
    }
  };
  begin_loops(models.size() - late);
  std::vector<int> before;
  const TimePoint begin = device->Now();
  const auto run_until = [&](double time) {
    const TimePoint until = begin + FigureTime(time);
    while (device->Now() < until) device->Wait(until);
  };
  for (double at = 0; at < kLength; at += 500) {
    run_until(at);
    if (at == kLength / 2) {
      begin_loops(models.size());
      for (const auto& loop : loops) before.push_back(loop->answers());
    }
    Request& request = requests.emplace_back();
    EXPECT_TRUE(dispatcher.Post({camera, kNoDeadline, request.inputs, request.outputs, &request}));
  }
  std::vector<double> parts;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const SimTask::Kernel kernel = models[i].kernels.front();
    parts.push_back((loops[i]->answers() - before[i]) * kernel.blocks * kernel.time);
  }
  const double mean =
      std::accumulate(parts.begin(), parts.end(), 0.0) / static_cast<double>(parts.size());
  for (double& part : parts) part /= mean;
  for (const auto& loop : loops) loop->Stop();
  run_until(kLength + 5000);
  return parts;
}

class BackgroundShares : public ::testing::TestWithParam<const char*> {
 protected:
  void ExpectEqual(const std::vector<SimTask>& models, std::size_t late = 0) {
    const std::vector<double> parts = PartsOfEqualShares(GetParam(), models, late);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_GT(parts[i], 0.8) << models[i].name << ", model " << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Schedulers, BackgroundShares,
                         ::testing::Values("reset", "reef", "lagoon"));

// The edges write answers of such jobs at low priority, too.
TEST_P(BackgroundShares, AResultSaysThatTheJobRanInTheBackground) {
  const std::unique_ptr<SimDevice> device = DeviceWithBackground();
  std::vector<std::unique_ptr<Instance>> instances;
  Scheduler named = *MakeScheduler(GetParam());
  Dispatcher dispatcher(*device, named.config, std::move(named.policy));
  const auto add = [&](const SimTask& model) {
    instances.push_back(*Instance::Create(PlanOf(model, *device), *device));
    QueueOptions options;
    options.name = model.name;
    options.job_class = model.job_class;
    options.instances = {instances.back().get()};
    return *dispatcher.AddQueue(options);
  };
  const auto ran_in_background = [&](QueueId queue) {
    Request request;
    EXPECT_TRUE(dispatcher.Post({queue, kNoDeadline, request.inputs, request.outputs, &request}));
    while (request.finished == 0) device->Wait(device->Now() + FigureTime(1000));
    return request.result.background;
  };
  const QueueId encoder = add(Encoder());
  EXPECT_FALSE(ran_in_background(encoder));  // nothing is real-time
  const QueueId camera = add(Camera());
  EXPECT_TRUE(ran_in_background(encoder));
  EXPECT_FALSE(ran_in_background(camera));
}

TEST_P(BackgroundShares, AreEqualForAModelOnEachUnit) { ExpectEqual({Segmentation(), Encoder()}); }

TEST_P(BackgroundShares, AreEqualForAnEncoderBesideTwoSegmentations) {
  ExpectEqual({Segmentation(), Segmentation(), Encoder()});
}

TEST_P(BackgroundShares, AreEqualForASegmentationBesideTwoEncoders) {
  ExpectEqual({Segmentation(), Encoder(), Encoder()});
}

TEST_P(BackgroundShares, AModelThatComesLateHasSavedUpNoTime) {
  ExpectEqual({Segmentation(), Encoder(), Encoder()}, /*late=*/2);
}

}  // namespace
}  // namespace lagoon::testing
