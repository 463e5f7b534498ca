#pragma once

#include "sched/policy.h"

namespace lagoon {

/// One order for all jobs, regardless of class: order of arrival (kArrival), shortest job first
/// (kTotal), earliest deadline first (kDeadline), least slack (kSlack), round robin (kLeastServed,
/// one kernel a turn), shortest remaining time (kRemaining). Weaknesses: order of arrival ignores
/// urgency; SJF and SRPT starve long jobs; EDF and least slack make every job late under overload;
/// round robin finishes all jobs late. Cost: O(1) in order of arrival, else O(log n) for n ready
/// jobs, when a job changes its place.
template <By order>
class OrderedPolicy final : public Policy {
 public:
  JobOrders orders() const override { return {order, order}; }

  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First(), order == By::kLeastServed ? 1 : ~0u);
  }
};

}  // namespace lagoon
