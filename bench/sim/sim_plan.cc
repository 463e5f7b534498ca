#include "bench/sim/sim_plan.h"

#include <fmt/format.h>

namespace lagoon::bench {

Result<std::shared_ptr<const LoadedPlan>> LoadSimPlan(const SimModel& model, SimDevice& device) {
  auto loaded = std::make_shared<LoadedPlan>();
  Plan& plan = loaded->plan;
  plan.model = model.statistics.model;
  plan.standalone = model.statistics.time;
  plan.part_ends = model.part_ends;
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
    op.blocks = kernel.blocks;
    if (kernel.deps) {
      op.deps = *kernel.deps;
    } else if (i > 0) {
      op.deps = {i - 1};
    }
    op.cost = {kernel.time, kernel.block.time};
    op.restart = kernel.restart;
    op.group_first = kernel.group_first;
    plan.ops.push_back(std::move(op));
  }
  return loaded;
}

}  // namespace lagoon::bench
