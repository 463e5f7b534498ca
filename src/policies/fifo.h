#pragma once

#include "sched/policy.h"

namespace lagoon {

/// Order of arrival, whatever the class. Where every job is submitted as it arrives, the device
/// decides (CUDA streams, Triton). Weakness: knows no urgency. Cost: O(1).
class FifoPolicy final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First());
  }
};

}  // namespace lagoon
