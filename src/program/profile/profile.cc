#include <algorithm>
#include <memory>
#include <vector>

#include "program/compile.h"
#include "program/link/host_tensors.h"
#include "program/profile/profile_run.h"
#include "program/run.h"

namespace lagoon {
namespace {

Nanoseconds Median(std::vector<Nanoseconds>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// An instance that must be destroyed before `loaded`, which it borrows.
Result<std::unique_ptr<Instance>> BorrowingInstance(LoadedPlan& loaded, Device& device,
                                                    std::size_t size) {
  const std::shared_ptr<const LoadedPlan> borrowed(std::shared_ptr<void>(), &loaded);
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(borrowed, device));
  instance->Select(size);
  return instance;
}

}  // namespace

OpCost CostOf(Nanoseconds kernel, std::uint32_t blocks, std::uint32_t units) {
  return {kernel, kernel / ((blocks + units - 1) / units)};
}

Result<std::vector<Nanoseconds>> MeasureKernels(LoadedPlan& loaded, Device& device, int runs,
                                                std::size_t size) {
  const Plan& plan = loaded.at(size);
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance,
                          BorrowingInstance(loaded, device, size));
  const HostTensors host(plan);
  std::vector<std::vector<Nanoseconds>> samples(plan.ops.size());
  std::vector<OpTimes> times(plan.ops.size());
  RunOptions options;
  options.max_in_flight = 1;
  options.times = times;
  for (int run = 0; run < std::max(runs, 1); ++run) {
    LAGOON_RETURN_IF_ERROR(RunPlan(*instance, device, host.inputs(), host.outputs(), options));
    for (std::size_t i = 0; i < times.size(); ++i) {
      samples[i].push_back(times[i].complete - times[i].placed);
    }
  }
  std::vector<Nanoseconds> kernels;
  for (auto& of_op : samples) kernels.push_back(Median(of_op));
  return kernels;
}

void ScaleProfile(const Plan& measured, Plan& plan, std::uint32_t units) {
  const auto scaled = [&](Nanoseconds time) { return time * plan.batch / measured.batch; };
  plan.standalone = scaled(measured.standalone);
  const bool same =
      std::equal(plan.ops.begin(), plan.ops.end(), measured.ops.begin(), measured.ops.end(),
                 [](const PlanOp& a, const PlanOp& b) { return a.name == b.name; });
  for (std::size_t i = 0; same && i < plan.ops.size(); ++i) {
    PlanOp& op = plan.ops[i];
    op.cost = CostOf(scaled(measured.ops[i].cost.kernel), op.blocks, std::max(units, 1U));
  }
}

Status ProfilePlan(LoadedPlan& loaded, Device& device, int runs, std::size_t size) {
  Plan& plan = loaded.at(size);
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Nanoseconds> kernels,
                          MeasureKernels(loaded, device, runs, size));
  const std::uint32_t units = std::max(device.info().units, 1U);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    PlanOp& op = plan.ops[i];
    op.cost = CostOf(kernels[i], op.blocks, units);
  }
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance,
                          BorrowingInstance(loaded, device, size));
  const HostTensors host(plan);
  std::vector<Nanoseconds> latencies;
  for (int run = 0; run < std::max(runs, 1); ++run) {
    const TimePoint start = device.Now();
    LAGOON_RETURN_IF_ERROR(RunOnce(*instance, device, host.inputs(), host.outputs()));
    latencies.push_back(device.Now() - start);
  }
  plan.standalone = Median(latencies);
  return {};
}

}  // namespace lagoon
