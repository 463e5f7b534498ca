#pragma once

// Tasks under a dispatcher on a simulated device that has no latency: schedules as papers draw
// them.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sched/testing/dispatcher_fixture.h"
#include "sim/device/testing/sim_fixture.h"

namespace lagoon::testing {

/// The unit of time of the schedules.
inline constexpr Nanoseconds kFigureUnit = std::chrono::microseconds(100);

/// One request of a model of its own: a chain of kernels, whose blocks take a whole compute unit.
struct SimTask {
  struct Kernel {
    std::uint32_t blocks = 0;
    double time = 0;  // time of one block
  };
  std::string name;
  JobClass job_class = JobClass::kBestEffort;
  double arrival = 0;
  std::vector<Kernel> kernels;
  std::vector<std::uint32_t> part_ends = {};
  UnitRange units = {};  // QueueOptions::units
  double weight = 1;
  std::vector<std::uint32_t> cut_ops = {};  // Plan::cut_ops
  Restart restart = Restart::kByClaims;     // of every kernel, each a group of its own
};

inline Nanoseconds FigureTime(double units) {
  return std::chrono::duration_cast<Nanoseconds>(units * kFigureUnit);
}

/// Running blocks check their guards more often than any time of a schedule needs.
inline std::unique_ptr<SimDevice> FigureDevice(std::uint32_t units, SimAbort abort) {
  SimDeviceOptions options;
  options.gpu = sim_testing::Ideal(units);
  options.gpu.constants.copy_bytes_per_us = 1'000'000;  // copies take no time
  options.abort = abort;
  return sim_testing::Make(options);
}

inline std::shared_ptr<const LoadedPlan> PlanOf(const SimTask& task, Device& device) {
  auto loaded = std::const_pointer_cast<LoadedPlan>(
      ChainPlan(static_cast<std::uint32_t>(task.kernels.size()), 1));
  const std::uint32_t units = device.info().units;
  loaded->plan.part_ends = task.part_ends;
  loaded->plan.cut_ops = task.cut_ops;
  for (std::size_t i = 0; i < task.kernels.size(); ++i) {
    const auto [blocks, time] = task.kernels[i];
    const Nanoseconds block = FigureTime(time);
    PlanOp& op = loaded->plan.ops[i];
    op.kernel_name = "K" + std::to_string(i + 1);
    op.kernel = *device.Load({op.name, nullptr}, {0, {.time = block}});
    op.blocks = blocks;
    op.restart = task.restart;
    op.group_first = static_cast<std::uint32_t>(i);
    op.cost = {block * ((blocks + units - 1) / units), block};
    // What follows ops of cuts depends on what is before them too.
    const auto is_cut = [&](std::size_t index) {
      return std::ranges::count(task.cut_ops, static_cast<std::uint32_t>(index)) > 0;
    };
    for (std::size_t before = i; before-- > 0 && is_cut(before);) {
      if (before > 0) op.deps.push_back(static_cast<std::uint32_t>(before - 1));
    }
  }
  return loaded;
}

/// Posts every task when it arrives, on an idle device. Returns the results when all jobs have
/// ended, in order of the tasks, which must be in order of arrival.
inline std::vector<JobResult> RunTasks(Device& device, Dispatcher& dispatcher,
                                       std::span<const SimTask> tasks) {
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<QueueId> queues;
  for (const SimTask& task : tasks) {
    instances.push_back(*Instance::Create(PlanOf(task, device), device));
    QueueOptions options;
    options.name = task.name;
    options.job_class = task.job_class;
    options.units = task.units;
    options.weight = task.weight;
    options.instances = {instances.back().get()};
    queues.push_back(*dispatcher.AddQueue(options));
  }
  std::deque<Request> requests(tasks.size());
  const TimePoint begin = device.Now();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TimePoint arrival = begin + FigureTime(tasks[i].arrival);
    while (device.Now() < arrival) device.Wait(arrival);
    Request& request = requests[i];
    EXPECT_TRUE(
        dispatcher.Post({queues[i], kNoDeadline, request.inputs, request.outputs, &request}));
  }
  std::vector<JobResult> results;
  for (const Request& request : requests) {
    while (request.finished == 0) device.Wait(kNoDeadline);
    EXPECT_EQ(request.result.outcome, Outcome::kDone);
    results.push_back(request.result);
  }
  return results;
}

/// A workload like that of REEF's Figures 4 and 6: four compute units, two best-effort tasks that
/// run, a real-time task that arrives in their middle, and two more best-effort tasks that arrive
/// before the real-time task is done. The paper gives no sizes: these are ours.
inline constexpr std::uint32_t kReefUnits = 4;
inline std::vector<SimTask> ReefExample() {
  const std::vector<SimTask::Kernel> best_effort = {{2, 1}, {2, 1}, {2, 1}};
  return {{"r1", JobClass::kBestEffort, 0, best_effort},
          {"b1", JobClass::kBestEffort, 0, best_effort},
          {"v1", JobClass::kRealTime, 1.5, {{3, 2.5}, {4, 1}, {2, 2.5}}},
          {"b2", JobClass::kBestEffort, 6.25, best_effort},
          {"r2", JobClass::kBestEffort, 6.25, best_effort}};
}

}  // namespace lagoon::testing
