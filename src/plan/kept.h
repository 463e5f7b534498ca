#pragma once

#include <cstddef>
#include <optional>

#include "plan/instance.h"
#include "plan/plan.h"

namespace lagoon {

/// The input in whose place the output lies, so that a run need not copy what it keeps (caches of
/// language models). No other tensors of a plan share their bytes.
std::optional<std::size_t> ReplacedInput(const Plan& plan, const PlanTensor& output);

/// Such inputs of the selected plan become zeros, and take memory of the machine only where they
/// are written, by pages. Only between jobs, and where the host can reach the arena; elsewhere
/// nothing happens.
void ReleaseKept(const Instance& instance, const DeviceControl& device);

}  // namespace lagoon
