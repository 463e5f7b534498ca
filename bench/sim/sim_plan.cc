#include "bench/sim/sim_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/sim/kernel_versions.h"

namespace lagoon::bench {
namespace {

// In millionths of the memory's bandwidth.
std::uint32_t BandwidthOf(const BlockDemand& block, const GpuModel& gpu) {
  if (block.time <= Nanoseconds(0)) return 0;
  const double bytes_per_us =
      static_cast<double>(block.memory_bytes) * 1000 / static_cast<double>(block.time.count());
  const double part = bytes_per_us / static_cast<double>(gpu.constants.memory_bytes_per_us);
  return static_cast<std::uint32_t>(std::min(part, 1.0) * 1e6);
}

// What the kernel takes alone on the device: the rounds in which its blocks run. A list may have
// been made for a device with other units. Where the list agrees but for what rounding took, it is
// right.
Nanoseconds TimeAlone(const SimModelKernel& kernel, std::uint32_t at_once) {
  const std::int64_t rounds = (kernel.blocks + std::int64_t{at_once} - 1) / at_once;
  const Nanoseconds time = kernel.block.time * rounds;
  return std::chrono::abs(kernel.time - time) <= Nanoseconds(rounds) ? kernel.time : time;
}

Status AddVersions(const SimModelKernel& kernel, SimDevice& device, PlanOp& op) {
  for (const SimKernelVersion& version : VersionsOf(kernel)) {
    LAGOON_ASSIGN_OR_RETURN(const KernelHandle handle,
                            device.Load({op.name, nullptr}, {0, version.block}));
    OpVersion& added = op.versions.emplace_back();
    added.name = fmt::format("time/{} occupancy*{}", version.shorter, version.narrower);
    added.blocks = version.blocks;
    added.cost = {version.time, version.block.time, BandwidthOf(version.block, device.gpu())};
    added.kernel = handle;
    added.occupancy = device.Occupancy(handle);
    added.need = device.NeedOf(handle);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const LoadedPlan>> LoadSimPlan(const SimModel& model, SimDevice& device,
                                                      bool versions) {
  auto loaded = std::make_shared<LoadedPlan>();
  Plan& plan = loaded->plan;
  plan.model = model.Name();
  plan.standalone = model.statistics.time;
  plan.part_ends = model.part_ends;
  plan.cut_ops = model.cut_ops;
  plan.ops.reserve(model.kernels.size());
  for (std::uint32_t i = 0; i < model.kernels.size(); ++i) {
    const SimModelKernel& kernel = model.kernels[i];
    PlanOp op;
    op.name = fmt::format("{}.{}", plan.model, i);
    op.kernel_name = "sim";
    Result<KernelHandle> handle = device.Load({op.name, nullptr}, {0, kernel.block});
    if (!handle) return Annotate(plan.model, std::move(handle).error());
    op.kernel = *handle;
    op.occupancy = device.Occupancy(*handle);
    op.need = device.NeedOf(*handle);
    op.blocks = kernel.blocks;
    if (kernel.deps) {
      op.deps = *kernel.deps;
    } else if (i > 0) {
      op.deps = {i - 1};
    }
    const std::uint32_t at_once = device.info().units * std::max(op.occupancy, 1U);
    op.cost = {TimeAlone(kernel, at_once), kernel.block.time,
               BandwidthOf(kernel.block, device.gpu())};
    op.restart = kernel.restart;
    op.group_first = kernel.group_first;
    if (versions) {
      Status added = AddVersions(kernel, device, op);
      if (!added) return Annotate(plan.model, std::move(added).error());
    }
    plan.ops.push_back(std::move(op));
  }
  return loaded;
}

}  // namespace lagoon::bench
