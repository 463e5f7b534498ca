#pragma once

#include "sched/policy.h"

namespace lagoon {

/// Jobs take turns, regardless of class. A turn is one kernel, or all kernels that the job submits
/// within PolicyConfig::quantum. While the job of the turn waits for its kernels, the next jobs
/// fill what it leaves free. Weakness: all jobs finish late. Cost: O(log n) for n ready jobs.
class RoundRobinPolicy final : public Policy {
 public:
  explicit RoundRobinPolicy(const PolicyConfig& config) : quantum_(config.quantum) {}

  JobOrders orders() const override { return {By::kLeastServed, By::kLeastServed}; }

  Decision Pick(const SchedulingView& view) override {
    if (view.now >= turn_ends_) turn_ = nullptr;
    if (turn_ != nullptr && view.ready.IsReady(*turn_)) return Decision::Run(*turn_, 1);
    const ScheduledJob* next = view.ready.First();
    if (next == nullptr) return Decision::Wait();
    if (turn_ == nullptr && quantum_ > Nanoseconds(0)) {
      turn_ = next;
      turn_ends_ = view.now + quantum_;
    }
    return Decision::Run(*next, 1);
  }

  void OnFinished(const ScheduledJob& job) override {
    if (turn_ == &job) turn_ = nullptr;
  }

 private:
  const Nanoseconds quantum_;
  const ScheduledJob* turn_ = nullptr;  // null: a new turn begins
  TimePoint turn_ends_;
};

}  // namespace lagoon
