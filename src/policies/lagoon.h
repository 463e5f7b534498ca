#pragma once

#include "policies/deficit.h"
#include "policies/fair_srpt.h"
#include "sched/policy.h"

namespace lagoon {

/// Real-time jobs by deadline; what they leave goes to best-effort jobs by shortest remaining time,
/// with deficits among their clients (Paella 6). Real-time jobs have no deficit: they take what
/// they need. Weakness: that of EDF and of SRPT, each within its class. Cost: O(log n).
class LagoonPolicy final : public Policy {
 public:
  explicit LagoonPolicy(double threshold = kFairnessThreshold) : threshold_(threshold) {}

  JobOrders orders() const override { return {By::kDeadline, By::kRemaining}; }

  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* urgent = view.ready.First(JobClass::kRealTime);
    if (urgent != nullptr) return Decision::Run(*urgent);
    const ScheduledJob* behind = deficits_.FirstAbove(
        threshold_, [&](QueueId client) { return view.ready.OldestOf(client); });
    return Decision::RunOrWait(behind != nullptr ? behind
                                                 : view.ready.First(JobClass::kBestEffort));
  }

  void OnArrival(const ScheduledJob& job) override {
    if (job.job_class == JobClass::kBestEffort) deficits_.OnArrival(job.queue_id);
  }
  void OnSubmitted(const ScheduledJob& job, std::uint32_t kernels) override {
    if (job.job_class == JobClass::kBestEffort) deficits_.OnServed(job.queue_id, kernels);
  }
  void OnFinished(const ScheduledJob& job) override {
    if (job.job_class == JobClass::kBestEffort) deficits_.OnFinished(job.queue_id);
  }

 private:
  double threshold_;
  DeficitCounters deficits_;
};

}  // namespace lagoon
