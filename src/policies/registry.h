#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "policies/parameters.h"
#include "sched/dispatcher.h"
#include "sched/policy.h"

namespace lagoon {

/// A named scheduler: a configuration of the mechanism and the policy that ranks.
struct Scheduler {
  SchedulerConfig config;
  std::unique_ptr<Policy> policy;
};

/// kNotFound lists the known names. kInvalidArgument for a parameter that the scheduler does not
/// have lists those that it has; for a value out of bounds, it names the bounds.
Result<Scheduler> MakeScheduler(const SchedulerChoice& choice);
/// `text`: SchedulerChoice::Parse, such as "reset" or "paella:fairness_threshold=100,depth=2".
Result<Scheduler> MakeScheduler(std::string_view text);

/// In the order of docs/guide/schedulers.md.
std::span<const std::string_view> SchedulerNames();

/// What the scheduler of that name does, in a line. Empty for an unknown name.
std::string_view SummaryOf(std::string_view name);

/// A parameter with its value in one scheduler.
struct ParameterValue {
  const SchedulerParameter* parameter = nullptr;
  double value = 0;
};

/// The parameters that the scheduler `config.name` has, with their values in `config`. Empty for an
/// unknown name.
std::vector<ParameterValue> ParametersOf(const SchedulerConfig& config);

/// What makes a scheduler like `config`: its name, and the parameters that differ from the name's
/// own.
SchedulerChoice ChoiceOf(const SchedulerConfig& config);

}  // namespace lagoon
