#include "sched/policy.h"

#include <algorithm>

namespace lagoon {
namespace {

// The first of two jobs that have the same order; either may be null.
const ScheduledJob* Earlier(const ScheduledJob* a, const ScheduledJob* b) {
  if (a == nullptr || b == nullptr) return a != nullptr ? a : b;
  return ReadyIndex::ByKey()(*b, *a) ? b : a;
}

const ScheduledJob* FrontOf(const ReadyIndex::Set& jobs) {
  return jobs.empty() ? nullptr : &*jobs.begin();
}

}  // namespace

const ScheduledJob* ReadyView::First(JobClass job_class) const {
  if (!Eligible(job_class)) return nullptr;
  const ScheduledJob* started = FrontOf(index_.jobs(job_class, true));
  if (!MayStart(job_class)) return started;
  return Earlier(started, FrontOf(index_.jobs(job_class, false)));
}

const ScheduledJob* ReadyView::RealTimeFirst() const {
  const ScheduledJob* real_time = First(JobClass::kRealTime);
  return real_time != nullptr ? real_time : First(JobClass::kBestEffort);
}

const ScheduledJob* ReadyView::First() const {
  return Earlier(First(JobClass::kRealTime), First(JobClass::kBestEffort));
}

const ScheduledJob* ReadyView::OldestOf(QueueId queue) const {
  const auto& jobs = index_.jobs(queue);
  const auto found = std::find_if(jobs.begin(), jobs.end(),
                                  [this](const ScheduledJob& job) { return IsReady(job); });
  return found == jobs.end() ? nullptr : &*found;
}

const ScheduledJob* ReadyView::OldestOf(ClientId client) const {
  const auto oldest = [this](const auto& jobs, bool with_tenants) -> const ScheduledJob* {
    const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const ScheduledJob& job) {
      return (with_tenants || job.tenant == 0) && IsReady(job);
    });
    return found == jobs.end() ? nullptr : &*found;
  };
  const std::uint32_t number = Raw(client);
  if (number < kMaxTenants) return oldest(index_.tenant(number + 1), true);
  return oldest(index_.jobs(QueueId{number - kMaxTenants}), false);
}

bool ReadyView::IsReady(const ScheduledJob& job) const {
  return job.ready_hook.is_linked() && Eligible(job.job_class) &&
         (job.started || MayStart(job.job_class));
}

bool Policy::Precedes(const ScheduledJob& other, const ScheduledJob& job) const {
  if (other.job_class != job.job_class) return other.job_class == JobClass::kRealTime;
  const JobOrders order = orders();
  const By by = job.job_class == JobClass::kRealTime ? order.real_time : order.best_effort;
  return ReadyIndex::KeyOf(by, other) <= ReadyIndex::KeyOf(by, job);
}

Decision Decision::Run(const ScheduledJob& job, std::uint32_t ops, std::uint64_t rank) {
  return {job.id, ops, rank};
}

Decision Decision::RunOrWait(const ScheduledJob* job, std::uint32_t ops) {
  return job == nullptr ? Wait() : Run(*job, ops);
}

}  // namespace lagoon
