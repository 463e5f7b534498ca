#pragma once

#include <string>

#include "plan/plan.h"

namespace lagoon {

/// The output of `lagoon inspect` for a compiled model: its kernels (body, blocks, FLOPs, times,
/// access sets, dependencies), its buffers and its memory. Times are measured if the plan is
/// profiled, otherwise estimated.
std::string InspectText(const LoadedPlan& loaded);

/// The same as indented JSON; bytes in the model's names that are not UTF-8 are replaced.
std::string InspectJson(const LoadedPlan& loaded);

}  // namespace lagoon
