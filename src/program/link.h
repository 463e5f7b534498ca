#pragma once

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "program/builder.h"
#include "program/weights.h"

namespace lagoon {

/// Orders the ops, places the arena's buffers and loads the kernels: the plan of a lowered program
/// whose weights are packed. Costs are estimates until the plan is profiled.
Result<Plan> LinkPlan(const LoweredProgram& program, const PackedWeights& weights,
                      DeviceControl& device, const std::string& model);

}  // namespace lagoon
