#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sched/policy.h"

namespace lagoon {

/// Rounds: when no job of the round is left, all jobs that wait start together. A job that comes
/// meanwhile waits for all of them.
///
/// Source: RT-A, the alignment of operators that SPLIT compares with (SPLIT 5.1). Weakness: a short
/// job waits for the longest job of the round before it. Cost: O(n) for n unfinished jobs.
class RoundsPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    if (left_ == 0) {
      left_ = jobs_.size();
      end_ = jobs_.empty() ? JobId{} : jobs_.back()->id;
    }
    for (const ScheduledJob* job : jobs_) {
      if (job->id > end_) break;
      if (view.ready.IsReady(*job)) return Decision::Run(*job);
    }
    return Decision::Wait();
  }

  void OnArrival(const ScheduledJob& job) override {
    jobs_.insert(std::ranges::upper_bound(jobs_, job.id, {}, &ScheduledJob::id), &job);
    if (left_ > 0 && job.id <= end_) ++left_;  // two threads posted at once: its place is before
  }
  void OnFinished(const ScheduledJob& job) override {
    if (left_ > 0 && job.id <= end_) --left_;
    std::erase(jobs_, &job);
  }

 private:
  std::vector<const ScheduledJob*> jobs_;  // unfinished, by id
  JobId end_{};                            // the last job of the round
  std::size_t left_ = 0;                   // unfinished jobs of the round
};

}  // namespace lagoon
