#include "sched/cost_table.h"

#include "base/check.h"

namespace lagoon {
namespace {

constexpr int kWeight = 8;  // one observation moves the mean by 1/8 of the difference

}  // namespace

CostTable::CostTable(const Plan& plan) {
  kernels_.reserve(plan.ops.size());
  for (const PlanOp& op : plan.ops) {
    kernels_.push_back(op.cost.kernel);
    total_ += op.cost.kernel;
  }
}

void CostTable::Observe(std::size_t op, Nanoseconds took) {
  LAGOON_CHECK(op < kernels_.size() && took >= Nanoseconds(0));
  Nanoseconds& kernel = kernels_[op];
  const Nanoseconds before = kernel;
  kernel = kernel == Nanoseconds(0) ? took : kernel + (took - kernel) / kWeight;
  total_ += kernel - before;
}

}  // namespace lagoon
