#pragma once

#include <cstdint>
#include <functional>
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

/// For each of `candidates` (as Plan::part_ends, not empty): medians of `runs` runs of the plan in
/// these parts. The kernels of a part follow each other without a gap; the next part is submitted
/// when the host has learned that the part before is complete. The candidates run in turns, so that
/// a machine that becomes slower does so for all of them. `progress`: called before each turn with
/// its number, from 0, and the number of turns; may be empty. Errors as ProfilePlan.
Result<std::vector<PartTimes>> MeasureParts(
    LoadedPlan& loaded, Device& device, std::span<const std::vector<std::uint32_t>> candidates,
    int runs, const std::function<void(int turn, int of)>& progress = {});

}  // namespace lagoon
