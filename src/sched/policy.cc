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
  if (!eligible_.start_new) return started;
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
  const auto found = std::find_if(jobs.begin(), jobs.end(), [this](const ScheduledJob& job) {
    return Eligible(job.job_class) && (job.started || eligible_.start_new);
  });
  return found == jobs.end() ? nullptr : &*found;
}

Decision Decision::Run(const ScheduledJob& job, std::uint32_t ops, std::uint64_t rank) {
  return {job.id, ops, rank};
}

Decision Decision::RunOrWait(const ScheduledJob* job, std::uint32_t ops) {
  return job == nullptr ? Wait() : Run(*job, ops);
}

}  // namespace lagoon
