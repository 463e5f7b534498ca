#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "sched/dispatcher.h"
#include "sched/policy.h"

namespace lagoon {

/// A named scheduler: a configuration of the mechanism and the policy that ranks.
struct Scheduler {
  SchedulerConfig config;
  std::unique_ptr<Policy> policy;
};

/// kNotFound lists the known names.
Result<Scheduler> MakeScheduler(std::string_view name);

/// In the order of docs/guide/schedulers.md.
std::span<const std::string_view> SchedulerNames();

}  // namespace lagoon
