#pragma once

#include <memory>

#include "bench/sim/kernel_lists.h"
#include "plan/plan.h"
#include "sim/device/sim_device.h"

namespace lagoon::bench {

/// Makes a plan from a frozen kernel list, for a dispatcher on `device`: a chain of kernels with
/// the published times as its profile. The plan has neither inputs nor outputs, as the published
/// times do not include copies. Fails if a kernel's blocks do not fit into the device's units,
/// naming the model. `versions`: kernels have those of VersionsOf().
Result<std::shared_ptr<const LoadedPlan>> LoadSimPlan(const SimModel& model, SimDevice& device,
                                                      bool versions = false);

}  // namespace lagoon::bench
