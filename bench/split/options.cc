#include "bench/split/options.h"

#include "policies/registry.h"

namespace lagoon::bench {

std::vector<std::string> DefaultSplitSchedulers() {
  return {"split",   "split-whole",  "clockwork", "clockwork:admit_by_deadline=0",
          "prema",   "prema-kernel", "rt-a",      "streams",
          "srpt",    "edf",          "lagoon",    "lagoon:response_ratio=1"};
}

Result<bool> TakesDeadlines(const std::string& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Scheduler scheduler, MakeScheduler(spec));
  const By order = scheduler.policy->orders().best_effort;
  return scheduler.config.admit_by_deadline || order == By::kDeadline || order == By::kSlack;
}

}  // namespace lagoon::bench
