#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "policies/arrival_load.h"
#include "sched/policy.h"

namespace lagoon {

/// The job goes first that raises the sum of all response ratios (latency over own time, or over
/// the time from arrival to deadline) least. Of two neighbours that is the one with the smaller
/// product of time left and that time; jobs of a queue stay in order of arrival. One part of the
/// job is submitted, so that a later job can pass it between two parts, with all of its own parts
/// together; with PolicyConfig::whole_jobs all are.
///
/// Source: SPLIT 3.4, Algorithm 1 (docs/results/reproduction.md says what is corrected). Weakness:
/// under overload long jobs starve, unless `patience` limits how many later jobs of other queues
/// may begin while a job is the oldest ready one of its queue. Cost: O(log n) for n jobs to insert
/// one. To pick one O(1), but O(k) for k queues if there is a limit, or if a later job of a queue
/// is shorter than an earlier one.
///
/// Elastic splitting (SPLIT 3.3, which gives no thresholds): a job whose parts cost something
/// (Plan::cut_ops) runs whole, without that cost,
/// - while arrivals bring more than `dense` of what the device can do, until they bring 0.1 less;
/// - while more than four fifths of at least five jobs are of its own queue.
class ResponseRatioPolicy final : public Policy {
 public:
  explicit ResponseRatioPolicy(const PolicyConfig& config) : config_(config) {}

  JobOrders orders() const override { return {By::kTargetRatio, By::kTargetRatio}; }
  bool Precedes(const ScheduledJob& other, const ScheduledJob& job) const override {
    return other.queue_id == job.queue_id ||
           ReadyIndex::KeyOf(By::kTargetRatio, other) <= ReadyIndex::KeyOf(By::kTargetRatio, job);
  }

  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* next = Passed(view.ready);
    if (next == nullptr) next = First(view.ready);
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
    --queues_[Raw(job.queue_id)].jobs;
    --jobs_;
  }

 private:
  struct Queue {
    std::uint32_t jobs = 0;    // unfinished
    JobId oldest{};            // whom `passed` is about
    std::uint32_t passed = 0;  // later jobs of other queues that began while it was ready
  };

  static const ScheduledJob* OldestOf(const ReadyView& ready, std::size_t queue) {
    return ready.OldestOf(QueueId{static_cast<std::uint32_t>(queue)});
  }

  // The first in the order of response ratios of those jobs that are the oldest of their queues.
  const ScheduledJob* First(const ReadyView& ready) const {
    const ScheduledJob* first = ready.First();
    if (first == nullptr || ready.OldestOf(first->queue_id) == first) return first;
    first = nullptr;
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      const ScheduledJob* job = OldestOf(ready, queue);
      if (job == nullptr) continue;
      if (first == nullptr || ReadyIndex::ByKey()(*job, *first)) first = job;
    }
    return first;
  }

  // The job that waits longest of those that were passed as often as is allowed; null: none.
  const ScheduledJob* Passed(const ReadyView& ready) const {
    const ScheduledJob* longest = nullptr;
    if (config_.patience == 0) return longest;
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      if (queues_[queue].passed < config_.patience) continue;
      const ScheduledJob* job = OldestOf(ready, queue);
      if (job == nullptr || job->id != queues_[queue].oldest) continue;
      if (longest == nullptr || job->id < longest->id) longest = job;
    }
    return longest;
  }

  void CountPassed(const ScheduledJob& next, const ReadyView& ready) {
    if (config_.patience == 0) return;
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      if (queue == Raw(next.queue_id)) continue;
      const ScheduledJob* job = OldestOf(ready, queue);
      if (job == nullptr || job->id > next.id) continue;
      if (std::exchange(queues_[queue].oldest, job->id) != job->id) queues_[queue].passed = 0;
      ++queues_[queue].passed;
    }
  }

  bool RunsWhole(const ScheduledJob& job, TimePoint now) {
    if (config_.whole_jobs) return true;
    if (!config_.elastic || !job.has_cut_ops) return false;
    const double load = load_.At(now);
    dense_ = load > (dense_ ? config_.dense - 0.1 : config_.dense);
    return dense_ || (jobs_ >= 5 && queues_[Raw(job.queue_id)].jobs * 5 > jobs_ * 4);
  }

  const PolicyConfig config_;
  std::vector<Queue> queues_;  // by id
  std::uint32_t jobs_ = 0;     // unfinished
  ArrivalLoad load_;
  bool dense_ = false;
};

}  // namespace lagoon
