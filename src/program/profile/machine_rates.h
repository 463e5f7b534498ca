#pragma once

#include "base/status.h"
#include "device/device.h"

namespace lagoon {

/// What all compute units of a device reach together.
struct MachineRates {
  double flops_per_us = 0;       // fp32 multiply-adds, each counts as two
  double near_bytes_per_us = 0;  // reading what lies in the units' own caches
  double far_bytes_per_us = 0;   // reading memory
  double near_bytes = 0;         // up to this size memory counts as near
};

/// Measures the rates by short loops on the idle device: a few hundred milliseconds.
/// kUnimplemented: the device computes nothing, or not on the host's cores. Other errors as
/// ProfilePlan.
Result<MachineRates> MeasureRates(Device& device);

}  // namespace lagoon
