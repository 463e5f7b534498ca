#pragma once

#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"

namespace lagoon {

/// The median time of every op, each alone on the idle device, from `runs` runs of
/// the whole plan in order. Errors as ProfilePlan.
Result<std::vector<Nanoseconds>> MeasureKernels(LoadedPlan& loaded, Device& device, int runs);

/// The cost of a kernel of `blocks` blocks that took the time `kernel` on `units` compute units.
OpCost CostOf(Nanoseconds kernel, std::uint32_t blocks, std::uint32_t units);

}  // namespace lagoon
