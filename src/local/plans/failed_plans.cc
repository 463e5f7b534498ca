#include "local/plans/failed_plans.h"

#include <algorithm>

namespace lagoon {

const Error* FailedPlans::Find(const PlanKey& key, TimePoint now) const {
  const auto found = std::ranges::find(failed_, key, &Failed::key);
  return found == failed_.end() || found->until <= now ? nullptr : &found->error;
}

bool FailedPlans::Add(const PlanKey& key, const Error& error, TimePoint now) {
  const auto known = std::ranges::find(failed_, key, &Failed::key);
  const bool is_new = known == failed_.end();
  const Nanoseconds pause = is_new ? kFirstPause : std::min(2 * known->pause, kLongestPause);
  if (!is_new) failed_.erase(known);
  failed_.push_back({key, error, pause, now + pause});
  if (failed_.size() > kMost) failed_.pop_front();
  return is_new;
}

void FailedPlans::Remove(const PlanKey& key) {
  std::erase_if(failed_, [&](const Failed& failed) { return failed.key == key; });
}

}  // namespace lagoon
