#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "plan/plan.h"

namespace lagoon {

struct PartTimes {
  /// By part: from the start of its first block to the last commit of its ops.
  std::vector<Nanoseconds> parts;
  Nanoseconds whole{0};  // the same of all ops, with the bubbles between the parts
};

/// Medians of `runs` runs of the plan in these parts (as Plan::part_ends, not empty). The kernels
/// of a part follow each other without a gap; the next part is submitted when the host has learned
/// that the part before is complete. Errors as ProfilePlan.
Result<PartTimes> MeasureParts(LoadedPlan& loaded, Device& device,
                               std::span<const std::uint32_t> ends, int runs);

}  // namespace lagoon
