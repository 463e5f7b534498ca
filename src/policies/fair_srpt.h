#pragma once

#include "policies/deficit.h"
#include "sched/policy.h"

namespace lagoon {

/// Shortest remaining time first. But while deficits of clients are above
/// PolicyConfig::fairness_threshold (large: SRPT): the oldest ready job of the client with the
/// largest one (Paella 6). Weakness: remaining times come from profiles, which contention
/// falsifies. Cost: O(log n).
class FairSrptPolicy final : public Policy {
 public:
  explicit FairSrptPolicy(const PolicyConfig& config) : threshold_(config.fairness_threshold) {}

  JobOrders orders() const override { return {By::kRemaining, By::kRemaining}; }

  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* behind = deficits_.FirstAbove(
        threshold_, [&](ClientId client) { return view.ready.OldestOf(client); });
    return Decision::RunOrWait(behind != nullptr ? behind : view.ready.First(), 1);
  }

  void OnArrival(const ScheduledJob& job) override { deficits_.OnArrival(ClientOf(job)); }
  void OnSubmitted(const ScheduledJob& job, std::uint32_t kernels) override {
    deficits_.OnServed(ClientOf(job), kernels);
  }
  void OnFinished(const ScheduledJob& job) override { deficits_.OnFinished(ClientOf(job)); }

 private:
  const double threshold_;
  DeficitCounters deficits_;
};

}  // namespace lagoon
