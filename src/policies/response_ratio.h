#pragma once

#include <vector>

#include "policies/arrival_load.h"
#include "sched/policy.h"

namespace lagoon {

/// The job goes first that raises the sum of all response ratios (latency over own time) least. Of
/// two neighbours that is the one with the smaller product of time left and own time; jobs of a
/// queue stay in order of arrival. One part of the job is submitted, so that a later job can pass
/// it between two parts, with all of its own parts together.
///
/// Source: SPLIT 3.4, Algorithm 1 (docs/results/reproduction.md says what is corrected). Weakness:
/// under overload long jobs starve, unless `patience` limits how many later jobs may pass the
/// oldest job of a queue. Cost: O(log n) for n jobs to insert one, and O(k) for k queues to pick
/// one if there is a limit.
///
/// Elastic splitting (SPLIT 3.3, which gives no thresholds): a job runs whole
/// - while arrivals bring more than `dense` of what the device can do, until they bring 0.1 less;
/// - while more than four fifths of at least five jobs are of its own queue.
class ResponseRatioPolicy final : public Policy {
 public:
  enum class Parts : std::uint8_t { kOne, kAll };  // what a decision submits

  ResponseRatioPolicy(const PolicyConfig& config, Parts parts) : config_(config), parts_(parts) {}

  JobOrders orders() const override { return {By::kResponseRatio, By::kResponseRatio}; }
  bool Precedes(const ScheduledJob& other, const ScheduledJob& job) const override {
    return other.queue_id == job.queue_id || ReadyIndex::KeyOf(By::kResponseRatio, other) <=
                                                 ReadyIndex::KeyOf(By::kResponseRatio, job);
  }

  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* next = Passed(view.ready);
    if (next == nullptr) next = view.ready.First();
    if (next == nullptr) return Decision::Wait();
    if (!next->started) CountPassed(*next, view.ready);
    return Decision::Run(*next, RunsWhole(*next, view.now) ? ~0u : next->part_ops);
  }

  void OnArrival(const ScheduledJob& job) override {
    if (queues_.size() <= Raw(job.queue_id)) queues_.resize(Raw(job.queue_id) + 1);
    ++queues_[Raw(job.queue_id)].jobs;
    ++jobs_;
    load_.Add(job.arrival, job.total);
  }
  void OnFinished(const ScheduledJob& job) override {
    Queue& queue = queues_[Raw(job.queue_id)];
    --queue.jobs;
    if (job.started || queue.jobs == 0) queue.passed = 0;
    --jobs_;
  }

 private:
  struct Queue {
    std::uint32_t jobs = 0;    // unfinished
    std::uint32_t passed = 0;  // later jobs of other queues that began before its oldest job ended
  };

  // The job that waits longest of those that were passed as often as is allowed; null: none.
  const ScheduledJob* Passed(const ReadyView& ready) const {
    const ScheduledJob* longest = nullptr;
    if (config_.patience == 0) return longest;
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      if (queues_[queue].passed < config_.patience) continue;
      const ScheduledJob* job = ready.OldestOf(QueueId{static_cast<std::uint32_t>(queue)});
      if (job != nullptr && (longest == nullptr || job->id < longest->id)) longest = job;
    }
    return longest;
  }

  void CountPassed(const ScheduledJob& next, const ReadyView& ready) {
    if (config_.patience == 0) return;
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      if (queue == Raw(next.queue_id)) continue;
      const ScheduledJob* job = ready.OldestOf(QueueId{static_cast<std::uint32_t>(queue)});
      if (job != nullptr && job->id < next.id) ++queues_[queue].passed;
    }
  }

  bool RunsWhole(const ScheduledJob& job, TimePoint now) {
    if (parts_ == Parts::kAll) return true;
    if (!config_.elastic) return false;
    const double load = load_.At(now);
    dense_ = load > (dense_ ? config_.dense - 0.1 : config_.dense);
    return dense_ || (jobs_ >= 5 && queues_[Raw(job.queue_id)].jobs * 5 > jobs_ * 4);
  }

  const PolicyConfig config_;
  const Parts parts_;
  std::vector<Queue> queues_;  // by id
  std::uint32_t jobs_ = 0;     // unfinished
  ArrivalLoad load_;
  bool dense_ = false;
};

}  // namespace lagoon
