#pragma once

#include "sched/policy.h"

namespace lagoon {

/// Real-time jobs before best-effort ones, each in order of arrival.
/// Source: REEF 3.1. Weakness: a flood of real-time work starves best-effort work. Cost: O(1), the
/// view is ordered.
class RealTimeFirstPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
};

}  // namespace lagoon
