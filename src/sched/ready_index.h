#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>

#include "sched/job.h"

namespace lagoon {

namespace intrusive = boost::intrusive;

/// What policies know of a job. The dispatcher's own record derives from it.
struct ScheduledJob {
  JobId id{};
  JobClass job_class = JobClass::kBestEffort;
  TimePoint arrival;  // when it was posted
  TimePoint deadline = kNoDeadline;
  bool started = false;  // it holds an instance
  intrusive::set_member_hook<> ready_hook;
};

/// The ready jobs, ordered by arrival, apart by class and by whether they have started. Allocates
/// nothing.
class ReadyIndex {
 public:
  struct ById {
    bool operator()(const ScheduledJob& a, const ScheduledJob& b) const { return a.id < b.id; }
  };
  using Set = intrusive::set<
      ScheduledJob,
      intrusive::member_hook<ScheduledJob, intrusive::set_member_hook<>, &ScheduledJob::ready_hook>,
      intrusive::compare<ById>>;

  /// Adds or removes; `job.started` must not change while the job is in the index.
  void Update(ScheduledJob& job, bool ready) {
    if (ready == job.ready_hook.is_linked()) return;
    Set& set = sets_[static_cast<int>(job.job_class)][job.started];
    if (ready) {
      set.insert(job);
    } else {
      set.erase(set.iterator_to(job));
    }
  }

  const Set& jobs(JobClass job_class, bool started) const {
    return sets_[static_cast<int>(job_class)][started];
  }
  bool Any(JobClass job_class) const {
    return !jobs(job_class, true).empty() || !jobs(job_class, false).empty();
  }

 private:
  Set sets_[2][2];
};

}  // namespace lagoon
