#pragma once

#include <algorithm>
#include <vector>

#include "sched/policy.h"

namespace lagoon {

/// Jobs collect tokens while they wait, in proportion to their priority and to how long they wait
/// compared with their own time. Of the jobs with the most tokens the shortest goes first.
///
/// - A job begins with as many tokens as its priority: 9 for real-time jobs, 3 for others (the
///   paper's three priorities are 1, 3 and 9).
/// - The threshold is the largest of 9, 3 and 1 that no more than the largest number of tokens.
///   Jobs with at least so many tokens are candidates.
///
/// Source: PREMA (Choi and Rhu, HPCA 2020), Algorithm 1. Weakness: tokens grow without end, so
/// that after some time every waiting job is a candidate and the policy is shortest job first.
/// Cost: O(n) for n unfinished jobs.
class PremaPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    double most = 0;
    for (Entry& entry : entries_) {
      if (entry.job != last_) Credit(entry, view.now);
      entry.credited = std::max(entry.credited, view.now);
      if (view.ready.IsReady(*entry.job)) most = std::max(most, entry.tokens);
    }
    const double threshold = most >= 9 ? 9 : most >= 3 ? 3 : 1;
    Entry* next = nullptr;
    for (Entry& entry : entries_) {
      if (entry.tokens < threshold || !view.ready.IsReady(*entry.job)) continue;
      if (next == nullptr || entry.job->remaining < next->job->remaining) next = &entry;
    }
    if (next == nullptr) return Decision::Wait();
    last_ = next->job;
    return Decision::Run(*last_);
  }

  void OnArrival(const ScheduledJob& job) override {
    entries_.push_back({&job, PriorityOf(job), job.arrival});
  }
  void OnFinished(const ScheduledJob& job) override {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.job == &job; });
    if (last_ == &job) last_ = nullptr;
  }

 private:
  struct Entry {
    const ScheduledJob* job;
    double tokens;
    TimePoint credited;
  };

  static double PriorityOf(const ScheduledJob& job) {
    return job.job_class == JobClass::kRealTime ? 9 : 3;
  }

  // For the time that the job waited since the last decision.
  static void Credit(Entry& entry, TimePoint now) {
    const double alone = static_cast<double>(std::max<std::int64_t>(entry.job->total.count(), 1));
    const auto waited = static_cast<double>(std::max(now - entry.credited, Nanoseconds(0)).count());
    entry.tokens += PriorityOf(*entry.job) * waited / alone;
  }

  std::vector<Entry> entries_;          // in order of posting
  const ScheduledJob* last_ = nullptr;  // has had the device since the last decision; may be null
};

}  // namespace lagoon
