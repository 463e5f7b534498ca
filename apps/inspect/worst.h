#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "plan/plan.h"
#include "program/profile/machine_rates.h"

namespace lagoon {

/// A kernel that takes more time than the machine needs for its work.
struct SlowKernel {
  std::uint32_t op = 0;  // in Plan::ops
  Nanoseconds time{0};
  Nanoseconds bound{0};

  Nanoseconds excess() const { return time - bound; }
};

/// The least time of a kernel: its operations or its bytes at the machine's rates, and 2 us.
Nanoseconds BoundOf(const PlanOp& op, const MachineRates& rates);

/// The kernels of a profiled plan that take more than twice their bound: at most `most`, those with
/// the largest excess first. Kernels that an engine computes are left out.
std::vector<SlowKernel> WorstKernels(const Plan& plan, const MachineRates& rates, std::size_t most);

/// What `lagoon inspect --profile --worst` prints.
std::string WorstText(const Plan& plan, const MachineRates& rates,
                      const std::vector<SlowKernel>& worst);
std::string WorstJson(const Plan& plan, const MachineRates& rates,
                      const std::vector<SlowKernel>& worst);

}  // namespace lagoon
