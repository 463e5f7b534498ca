#pragma once

#include "sched/policy.h"

namespace lagoon {

/// One order for all jobs, whatever their class: shortest job first (kTotal), earliest deadline
/// first (kDeadline), least slack (kSlack), round robin (kLeastServed, one kernel a turn), shortest
/// remaining time (kRemaining). Weaknesses: SJF and SRPT starve long jobs; EDF and least slack help
/// none when all are late; round robin finishes everybody late. Cost: O(log n) of the ready jobs,
/// when one changes its place.
template <By order>
class OrderedPolicy final : public Policy {
 public:
  JobOrders orders() const override { return {order, order}; }

  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First(), order == By::kLeastServed ? 1 : ~0u);
  }
};

}  // namespace lagoon
