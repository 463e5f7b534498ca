#pragma once

#include <string>

#include "plan/plan.h"

namespace lagoon {

/// What `lagoon inspect` prints of a compiled model: its kernels (body, blocks, FLOPs, times,
/// access sets, dependencies), its buffers and its memory. Times are measured if the plan is
/// profiled, else estimates.
std::string InspectText(const LoadedPlan& loaded);

/// The same as JSON, indented; bytes that are not UTF-8 in a model's names are replaced.
std::string InspectJson(const LoadedPlan& loaded);

}  // namespace lagoon
