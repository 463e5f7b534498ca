#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sched/config.h"

namespace lagoon {

/// A number of a scheduler that a user may set. Which schedulers have it: ParametersOf() in
/// policies/registry.h.
struct SchedulerParameter {
  std::string_view name;
  double least = 0, most = 0;  // bounds of the value
  bool whole = true;           // takes whole numbers only
  std::string_view meaning;    // with the unit
  double (*get)(const SchedulerConfig&);
  void (*set)(SchedulerConfig&, double);
};

/// All parameters of all schedulers.
std::span<const SchedulerParameter> SchedulerParameterTable();

/// A scheduler as a user names it: "NAME" or "NAME:PARAMETER=VALUE,PARAMETER=VALUE".
struct SchedulerChoice {
  std::string name;
  std::vector<std::pair<std::string, double>> parameters = {};  // in the order of the text

  /// kInvalidArgument names the text and the form. Does not know which names there are.
  static Result<SchedulerChoice> Parse(std::string_view text);
  std::string Text() const;
};

/// Splits "fifo,paella:depth=2,extra_blocks=4" into "fifo" and "paella:depth=2,extra_blocks=4".
std::vector<std::string> SplitSchedulers(std::string_view list);

/// The shortest text that stands for exactly this value: "4", "0.9".
std::string ValueText(double value);

}  // namespace lagoon
