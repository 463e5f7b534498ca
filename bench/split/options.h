#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/split/answers.h"
#include "sched/job.h"

namespace lagoon::bench {

/// What simulated and real devices share of the options of `lagoon bench split`.
struct SplitOptions {
  std::vector<int> scenarios = {1, 2, 3, 4, 5, 6};  // of Table 2
  std::vector<std::string> schedulers;  // with parameters: "clockwork:admit_by_deadline=0"
  std::uint32_t seed = 1;
  bool small = false;  // small models; not on simulated devices
  /// The deadline of requests with SplitRun::deadlines: this many
  /// times the model's time alone, after the arrival. Other schedulers get no deadline, so that no
  /// request of theirs expires.
  double deadline_alpha = 4;
};

/// The schedulers that are compared if no option names others.
std::vector<std::string> DefaultSplitSchedulers();

/// A scheduler as one system of the comparison.
struct SplitRun {
  std::string name;              // in metrics
  std::string spec;              // for MakeScheduler()
  bool deadlines = false;        // its requests have SplitOptions::deadline_alpha
  bool short_real_time = false;  // the short models are real-time
};

/// One run for each scheduler, and for `lagoon` another one, whose name ends in ".classes", with
/// the short models as real-time: what a user of Lagoon says of models that must answer soon.
/// Deadlines are for `edf`, `least-slack`, and schedulers with admission by deadline. Fails as
/// MakeScheduler().
Result<std::vector<SplitRun>> SplitRuns(const std::vector<std::string>& schedulers);

/// The class of a model's requests.
JobClass ClassOf(const SplitRun& run, const SplitModelName& model);

/// The name of a scheduler or system without parameters: "clockwork" of
/// "clockwork:admit_by_deadline=0", "split" of "split.plan".
std::string_view SchedulerName(std::string_view spec);

}  // namespace lagoon::bench
