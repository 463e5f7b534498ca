#pragma once

#include <string>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "program/link/weight_store.h"
#include "program/lower/builder.h"

namespace lagoon {

/// The largest idempotent group that REEF found in real engines (4.4).
inline constexpr std::uint32_t kMaxInPlaceGroup = 9;

struct LinkOptions {
  std::string model;  // name of the plan
  /// Outputs replace inputs that are not read afterwards, where the kernels allow it, as in many
  /// engines. Such kernels cannot simply be run again. Each one can be restored by an idempotent
  /// group of at most kMaxInPlaceGroup ops, whose inputs stay in memory for this purpose.
  bool in_place = false;
  /// In place only: how kernels restart that are revoked. kByGroup concerns those in place;
  /// kByClaims is only for callers that restore groups by themselves.
  Restart restart = Restart::kByClaims;
};

/// The estimate that a plan has until it is profiled: of a kernel alone on so many CPU cores.
OpCost EstimateCost(const Kernel& kernel, std::uint32_t units);

/// Turns a lowered program with packed weights into a plan: orders the ops, places the arena's
/// buffers and loads the kernels. Costs are estimates until the plan is profiled.
Result<Plan> LinkPlan(const LoweredProgram& program, const PackedWeights& weights,
                      DeviceControl& device, const LinkOptions& options);

}  // namespace lagoon
