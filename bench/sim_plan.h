#pragma once

#include <memory>

#include "device/sim/models.h"
#include "device/sim/sim_device.h"
#include "plan/plan.h"

namespace lagoon::bench {

/// A frozen kernel list as a plan that the dispatcher runs on `device`: a chain with the published
/// times as its profile. It has neither inputs nor outputs: the published times are of the kernels.
/// Fails when a kernel's blocks do not fit into the device's units, naming the model.
Result<std::shared_ptr<const LoadedPlan>> LoadSimPlan(const SimModel& model, SimDevice& device);

}  // namespace lagoon::bench
