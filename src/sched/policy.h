#pragma once

// All that a scheduling policy sees. A policy ranks; the mechanism (dispatcher) revokes, pads,
// submits and enforces limits. See docs/guide/write-a-policy.md.

#include <cstdint>
#include <optional>

#include "sched/job.h"
#include "sched/ready_index.h"

namespace lagoon {

/// The jobs that may take another kernel now. Reading the first of an order is O(1).
class ReadyView {
 public:
  struct Eligibility {
    bool real_time = true;
    bool best_effort = true;
    bool start_new = true;  // jobs without work on the device
  };

  ReadyView(const ReadyIndex& index, Eligibility eligible) : index_(index), eligible_(eligible) {}

  /// First in the order of the class that the policy asked for; null when nothing of it is ready.
  const ScheduledJob* First(JobClass job_class) const;
  /// First of both classes; real-time jobs before best-effort ones.
  const ScheduledJob* RealTimeFirst() const;
  /// First of both classes, which must have the same order.
  const ScheduledJob* First() const;
  /// The queue's job that was posted first among those that are ready.
  const ScheduledJob* OldestOf(QueueId queue) const;

 private:
  bool Eligible(JobClass job_class) const {
    return job_class == JobClass::kRealTime ? eligible_.real_time : eligible_.best_effort;
  }

  const ReadyIndex& index_;
  Eligibility eligible_;
};

struct SchedulingView {
  TimePoint now;
  ReadyView ready;
};

/// What to submit next. Ops beyond the device-queue depth of the scheduler are left for later
/// picks.
struct Decision {
  static constexpr std::uint64_t kLastRank = (std::uint64_t{1} << 63) - 1;

  std::optional<JobId> job;  // empty: nothing now
  std::uint32_t ops = 0;
  /// What the device goes by among the kernels of a class, where the scheduler leaves that to its
  /// policy (Ranks::kPolicy): smaller first, at most kLastRank; equal ones in order of submission.
  std::uint64_t rank = 0;

  static Decision Wait() { return {}; }
  static Decision Run(const ScheduledJob& job, std::uint32_t ops = ~0u, std::uint64_t rank = 0);
  /// The same for what a view returned: null waits.
  static Decision RunOrWait(const ScheduledJob* job, std::uint32_t ops = ~0u);
};

/// One thread at a time (the dispatcher's), no locks, no clock but view.now. Deterministic.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Called until it waits or nothing more fits. Must not allocate.
  virtual Decision Pick(const SchedulingView& view) = 0;

  /// How the view orders the jobs of each class; asked once.
  virtual JobOrders orders() const { return {}; }

  /// A job was posted. May allocate.
  virtual void OnArrival(const ScheduledJob& /*job*/) {}
  /// `kernels` more kernels of the job were submitted, after a pick.
  virtual void OnSubmitted(const ScheduledJob& /*job*/, std::uint32_t /*kernels*/) {}
  /// The job left, whatever its outcome; once for each OnArrival.
  virtual void OnFinished(const ScheduledJob& /*job*/) {}
};

}  // namespace lagoon
