#pragma once

#include "sched/policy.h"

namespace lagoon {

/// Order of arrival, regardless of class. If every job is submitted when it arrives, the device
/// decides (CUDA streams, Triton). Weakness: ignores urgency. Cost: O(1).
class FifoPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First());
  }
};

}  // namespace lagoon
