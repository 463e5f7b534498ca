#include "sched/cost_table.h"

#include "base/check.h"

namespace lagoon {
namespace {

constexpr int kWeight = 8;  // one observation moves the mean by 1/8 of the difference

}  // namespace

CostTable::CostTable(const Plan& plan) {
  kernels_.reserve(plan.ops.size());
  Nanoseconds total{0};
  for (const PlanOp& op : plan.ops) {
    kernels_.push_back({op.cost.kernel, op.blocks, std::max(op.occupancy, 1u)});
    total += op.cost.kernel;
  }
  total_.store(total, std::memory_order_relaxed);
}

void CostTable::UseUnits(std::uint32_t units, std::uint32_t all) {
  LAGOON_CHECK(units > 0 && units <= all);
  const std::uint32_t before = units_ == 0 ? all : units_;
  units_ = units;
  if (units == before) return;
  Nanoseconds total{0};
  for (Kernel& kernel : kernels_) {
    const std::int64_t rounds = std::max<std::int64_t>(1, kernel.Rounds(before));
    kernel.time = kernel.time * std::max<std::int64_t>(1, kernel.Rounds(units)) / rounds;
    total += kernel.time;
  }
  total_.store(total, std::memory_order_relaxed);
}

void CostTable::Observe(std::size_t op, Nanoseconds took) {
  LAGOON_CHECK(op < kernels_.size() && took >= Nanoseconds(0));
  Nanoseconds& kernel = kernels_[op].time;
  const Nanoseconds before = kernel;
  kernel = kernel == Nanoseconds(0) ? took : kernel + (took - kernel) / kWeight;
  total_.store(total() + (kernel - before), std::memory_order_relaxed);
}

}  // namespace lagoon
