#include "apps/inspect/worst.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace lagoon {
namespace {

constexpr double kLeastUs = 2;  // to start a kernel on all units and to see its end

}  // namespace

Nanoseconds BoundOf(const PlanOp& op, const MachineRates& rates) {
  const double bytes_per_us =
      op.accessed_bytes <= rates.near_bytes ? rates.near_bytes_per_us : rates.far_bytes_per_us;
  const double us =
      std::max({op.flops / rates.flops_per_us, op.accessed_bytes / bytes_per_us, kLeastUs});
  return Nanoseconds(static_cast<std::int64_t>(us * 1e3));
}

std::vector<SlowKernel> WorstKernels(const Plan& plan, const MachineRates& rates,
                                     std::size_t most) {
  std::vector<SlowKernel> worst;
  for (std::uint32_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    const SlowKernel kernel{i, op.cost.kernel, BoundOf(op, rates)};
    if (op.opaque == nullptr && kernel.time > 2 * kernel.bound) worst.push_back(kernel);
  }
  std::ranges::stable_sort(worst, std::greater(), &SlowKernel::excess);
  if (worst.size() > most) worst.resize(most);
  return worst;
}

std::string WorstText(const Plan& plan, const MachineRates& rates,
                      const std::vector<SlowKernel>& worst) {
  std::string text = fmt::format(
      "model {}: {} kernels, standalone {:.1f} us\n"
      "this machine: {:.0f} GFLOP/s (fp32), reads {:.0f} GB/s from caches, {:.0f} GB/s from "
      "memory\n",
      plan.model, plan.ops.size(), ToMicroseconds(plan.standalone), rates.flops_per_us / 1e3,
      rates.near_bytes_per_us / 1e3, rates.far_bytes_per_us / 1e3);
  if (worst.empty()) return text + "no kernel takes more than twice its bound\n";
  text += fmt::format("\n{:>4} {:<14} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "#", "body", "time us",
                      "bound us", "excess us", "MFLOP", "MB", "node");
  for (const SlowKernel& kernel : worst) {
    const PlanOp& op = plan.ops[kernel.op];
    text += fmt::format("{:>4} {:<14} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.2f} {:>9.3f}  {}\n",
                        kernel.op, op.kernel_name, ToMicroseconds(kernel.time),
                        ToMicroseconds(kernel.bound), ToMicroseconds(kernel.excess()),
                        op.flops / 1e6, op.accessed_bytes / 1e6, op.name);
  }
  return text;
}

std::string WorstJson(const Plan& plan, const MachineRates& rates,
                      const std::vector<SlowKernel>& worst) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const SlowKernel& kernel : worst) {
    const PlanOp& op = plan.ops[kernel.op];
    kernels.push_back({{"op", kernel.op},
                       {"name", op.name},
                       {"kernel", op.kernel_name},
                       {"kernel_us", ToMicroseconds(kernel.time)},
                       {"bound_us", ToMicroseconds(kernel.bound)},
                       {"excess_us", ToMicroseconds(kernel.excess())},
                       {"flops", op.flops},
                       {"bytes", op.accessed_bytes}});
  }
  const nlohmann::json document = {{"model", plan.model},
                                   {"standalone_us", ToMicroseconds(plan.standalone)},
                                   {"flops_per_us", rates.flops_per_us},
                                   {"near_bytes_per_us", rates.near_bytes_per_us},
                                   {"far_bytes_per_us", rates.far_bytes_per_us},
                                   {"worst", std::move(kernels)}};
  return DumpJson(document, 2);
}

}  // namespace lagoon
