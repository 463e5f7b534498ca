#pragma once

#include "sched/policy.h"

namespace lagoon {

/// Order of arrival, whatever the class. Under `streams` every job is submitted as it arrives, so
/// that the device decides (CUDA streams, Triton). Weakness: knows no urgency. Cost: O(1).
class FifoPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    const ScheduledJob* next = view.ready.First(By::kArrival);
    return next == nullptr ? Decision::Wait() : Decision::Run(*next);
  }
};

}  // namespace lagoon
