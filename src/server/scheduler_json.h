#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "policies/parameters.h"
#include "sched/config.h"

namespace lagoon {

// Bodies of requests and answers at /v2/scheduler and /v2/schedulers (docs/guide/schedulers.md).

/// `config`: the scheduler in use. The body has its parameters with their values, and the names of
/// all schedulers.
std::string SchedulerJson(const SchedulerConfig& config);

/// What each of the schedulers `names` does, and its parameters with bounds, default and meaning.
/// `indent`: as DumpJson().
std::string SchedulersJson(std::span<const std::string_view> names, int indent = -1);

/// Takes {"scheduler": NAME} and {"scheduler": NAME, "parameters": {PARAMETER: NUMBER}}. NAME may
/// have its parameters in itself (SchedulerChoice::Parse) if there are no others. kInvalidArgument
/// says what is wrong with `body`. Does not know which names there are.
Result<SchedulerChoice> ParseSchedulerJson(std::string_view body);

}  // namespace lagoon
