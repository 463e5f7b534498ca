#include "sched/policy.h"

namespace lagoon {

const ScheduledJob* ReadyView::FirstOf(JobClass job_class) const {
  const auto& started = index_.jobs(job_class, true);
  const ScheduledJob* first = started.empty() ? nullptr : &*started.begin();
  if (!start_new_) return first;
  const auto& fresh = index_.jobs(job_class, false);
  if (fresh.empty() || (first != nullptr && first->id < fresh.begin()->id)) return first;
  return &*fresh.begin();
}

const ScheduledJob* ReadyView::First(By order) const {
  const ScheduledJob* real_time = FirstOf(JobClass::kRealTime);
  if (!best_effort_) return real_time;
  const ScheduledJob* best_effort = FirstOf(JobClass::kBestEffort);
  if (real_time == nullptr || best_effort == nullptr) {
    return real_time != nullptr ? real_time : best_effort;
  }
  if (order == By::kClassThenArrival) return real_time;
  return real_time->id < best_effort->id ? real_time : best_effort;
}

Decision Decision::Run(const ScheduledJob& job, std::uint32_t ops) { return {job.id, ops}; }

}  // namespace lagoon
