#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

/// What simulated and real devices share of the options of `lagoon bench split`.
struct SplitOptions {
  std::vector<int> scenarios = {1, 6};  // of Table 2
  std::vector<std::string> schedulers;  // with parameters: "clockwork:admit_by_deadline=0"
  std::uint32_t seed = 1;
  bool small = false;  // less work, for a quick look
  /// The deadline of requests under a scheduler that takes deadlines (TakesDeadlines()): this many
  /// times the model's time alone, after the arrival. Other schedulers get no deadline, so that no
  /// request of theirs expires.
  double deadline_alpha = 4;
};

/// The schedulers that are compared if no option names others.
std::vector<std::string> DefaultSplitSchedulers();

/// True for `edf`, `least-slack` and all with admission by deadline. Fails as MakeScheduler().
Result<bool> TakesDeadlines(const std::string& spec);

}  // namespace lagoon::bench
