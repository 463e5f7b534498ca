#pragma once

#include <string>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "program/builder.h"
#include "program/weights.h"

namespace lagoon {

/// The largest group that REEF found in real engines (4.4).
inline constexpr std::uint32_t kMaxInPlaceGroup = 9;

struct LinkOptions {
  std::string model;        // the plan's name
  std::int64_t batch = 1;   // the plan's
  std::size_t program = 0;  // which of those whose weights were packed together
  /// Outputs replace inputs that nobody reads afterwards, where the kernels allow it, as many
  /// engines do: such kernels cannot simply be run again. None needs an idempotent group of more
  /// than kMaxInPlaceGroup ops, whose inputs stay in memory for it.
  bool in_place = false;
};

/// Orders the ops, places the arena's buffers and loads the kernels: the plan of a lowered program
/// whose weights are packed. Costs are estimates until the plan is profiled.
Result<Plan> LinkPlan(const LoweredProgram& program, const PackedWeights& weights,
                      DeviceControl& device, const LinkOptions& options);

}  // namespace lagoon
