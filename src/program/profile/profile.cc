#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program/compile.h"
#include "program/link/host_tensors.h"
#include "program/profile/profile_run.h"
#include "program/profile/versions.h"
#include "program/run.h"

namespace lagoon {
namespace {

Nanoseconds Median(std::vector<Nanoseconds>& samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// An instance that must be destroyed before `loaded`, which it borrows.
Result<std::unique_ptr<Instance>> BorrowingInstance(LoadedPlan& loaded, Device& device) {
  const std::shared_ptr<const LoadedPlan> borrowed(std::shared_ptr<void>(), &loaded);
  return Instance::Create(borrowed, device);
}

/// The work of an op as one number, to compare an op of one plan with the same op of another.
double WorkOf(const PlanOp& op) { return op.flops > 0 ? op.flops : 1 + op.accessed_bytes; }

Nanoseconds Times(Nanoseconds time, double factor) {
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
}

/// Gives `op` the versions that `measured` has kept, with their costs times `factor`, and the
/// choice among them.
void TakeVersions(const PlanOp& measured, double factor, std::uint32_t units, PlanOp& op) {
  std::vector<OpVersion> kept;
  std::optional<std::uint32_t> chosen;
  for (const OpVersion& version : op.versions) {
    const auto known = std::ranges::find(measured.versions, version.name, &OpVersion::name);
    if (known == measured.versions.end()) continue;
    if (known - measured.versions.begin() == std::ptrdiff_t{measured.version}) {
      chosen = static_cast<std::uint32_t>(kept.size());
    }
    OpVersion& taken = kept.emplace_back(version);
    const Nanoseconds kernel = known->cost.kernel;
    if (kernel > Nanoseconds(0)) {
      taken.cost = CostOf(Times(kernel, factor), taken.blocks, units);
    }
  }
  if (!chosen) return;  // the op is cut in other ways: it keeps its own choice
  op.versions = std::move(kept);
  UseVersion(op, *chosen);
}

}  // namespace

OpCost CostOf(Nanoseconds kernel, std::uint32_t blocks, std::uint32_t units) {
  return {kernel, kernel / ((blocks + units - 1) / units)};
}

Result<std::vector<Nanoseconds>> MeasureKernels(LoadedPlan& loaded, Device& device, int runs) {
  const Plan& plan = loaded.plan;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance,
                          BorrowingInstance(loaded, device));
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
  units = std::max(units, 1U);
  std::unordered_map<std::string_view, const PlanOp*> known;
  Nanoseconds measured_total{0}, total{0};
  for (const PlanOp& op : measured.ops) {
    known.emplace(op.name, &op);
    measured_total += op.cost.kernel;
  }
  for (PlanOp& op : plan.ops) {
    const auto found = known.find(op.name);
    if (found != known.end() && found->second->kernel_name == op.kernel_name) {
      const PlanOp& same = *found->second;
      const double factor = WorkOf(op) / WorkOf(same);
      TakeVersions(same, factor, units, op);
      op.cost = CostOf(Times(same.cost.kernel, factor), op.blocks, units);
    }
    total += op.cost.kernel;
  }
  const auto nonzero = static_cast<double>(std::max<std::int64_t>(measured_total.count(), 1));
  plan.standalone = Times(measured.standalone, static_cast<double>(total.count()) / nonzero);
}

Status ProfilePlan(LoadedPlan& loaded, Device& device, int runs) {
  Plan& plan = loaded.plan;
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Nanoseconds> kernels,
                          MeasureKernels(loaded, device, runs));
  const std::uint32_t units = std::max(device.info().units, 1U);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    PlanOp& op = plan.ops[i];
    op.cost = CostOf(kernels[i], op.blocks, units);
  }
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance,
                          BorrowingInstance(loaded, device));
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
