#pragma once

#include "sched/policy.h"

namespace lagoon {

/// Jobs in PolicyConfig::order: order of arrival (kArrival), shortest job first (kTotal), earliest
/// deadline first (kDeadline), least slack (kSlack), shortest remaining time (kRemaining). The
/// order holds for all jobs, or with PolicyConfig::real_time_first within each class, real-time
/// jobs before the others (REEF 3.1). Weaknesses: order of arrival ignores urgency; SJF and SRPT
/// starve long jobs; EDF and least slack make every job late under overload; a flood of real-time
/// work starves the class behind it. Cost: O(1) in order of arrival, else O(log n) for n ready
/// jobs, when a job changes its place.
class OrderedPolicy final : public Policy {
 public:
  explicit OrderedPolicy(const PolicyConfig& config)
      : order_(config.order), real_time_first_(config.real_time_first) {}

  JobOrders orders() const override { return {order_, order_}; }
  bool Precedes(const ScheduledJob& other, const ScheduledJob& job) const override {
    if (real_time_first_) return Policy::Precedes(other, job);
    return ReadyIndex::KeyOf(order_, other) <= ReadyIndex::KeyOf(order_, job);
  }

  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(real_time_first_ ? view.ready.RealTimeFirst() : view.ready.First());
  }

 private:
  const By order_;
  const bool real_time_first_;
};

}  // namespace lagoon
