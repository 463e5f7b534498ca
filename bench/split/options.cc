#include "bench/split/options.h"

#include "policies/registry.h"

namespace lagoon::bench {

std::vector<std::string> DefaultSplitSchedulers() {
  // Elastic splitting, which the paper gives no thresholds for, and RT-A's answers can be read in
  // two ways: both are shown.
  return {"split",
          "split:elastic=0",
          "split-whole",
          "clockwork",
          "clockwork:admit_by_deadline=0",
          "prema",
          "prema-kernel",
          "rt-a",
          "rt-a:together=0",
          "streams",
          "srpt",
          "edf",
          "lagoon",
          "lagoon-ratio"};
}

Result<std::vector<SplitRun>> SplitRuns(const std::vector<std::string>& schedulers) {
  std::vector<SplitRun> runs;
  for (const std::string& spec : schedulers) {
    LAGOON_ASSIGN_OR_RETURN(const Scheduler scheduler, MakeScheduler(spec));
    const By order = scheduler.policy->orders().best_effort;
    const bool deadlines =
        scheduler.config.admit_by_deadline || order == By::kDeadline || order == By::kSlack;
    runs.push_back({spec, spec, deadlines});
    if (SchedulerName(spec) != "lagoon") continue;
    runs.push_back({spec + ".classes", spec, deadlines, /*short_real_time=*/true});
  }
  return runs;
}

JobClass ClassOf(const SplitRun& run, const SplitModelName& model) {
  return run.short_real_time && model.is_short ? JobClass::kRealTime : JobClass::kBestEffort;
}

std::string_view SchedulerName(std::string_view spec) {
  return spec.substr(0, spec.find_first_of(":."));
}

}  // namespace lagoon::bench
