#pragma once

#include "sched/policy.h"

namespace lagoon {

/// One order for all jobs, regardless of class: order of arrival (kArrival), shortest job first
/// (kTotal), earliest deadline first (kDeadline), least slack (kSlack), shortest remaining time
/// (kRemaining). Weaknesses: order of arrival ignores urgency; SJF and SRPT starve long jobs; EDF
/// and least slack make every job late under overload. Cost: O(1) in order of arrival, else
/// O(log n) for n ready jobs, when a job changes its place.
template <By order>
class OrderedPolicy final : public Policy {
 public:
  JobOrders orders() const override { return {order, order}; }
  bool Precedes(const ScheduledJob& other, const ScheduledJob& job) const override {
    return ReadyIndex::KeyOf(order, other) <= ReadyIndex::KeyOf(order, job);
  }

  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First());
  }
};

}  // namespace lagoon
