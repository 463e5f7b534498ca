#pragma once

// The interface of scheduling policies. A policy ranks jobs; the mechanism (dispatcher) revokes,
// pads, submits and enforces limits. See docs/guide/write-a-policy.md.

#include <cstdint>
#include <optional>

#include "sched/config.h"
#include "sched/job.h"
#include "sched/ready_index.h"

namespace lagoon {

/// The jobs that may submit another kernel now. Reading the first job of an order is O(1).
class ReadyView {
 public:
  struct Eligibility {
    bool real_time = true;
    bool best_effort = true;
    bool start_new = true;        // jobs that have not started
    bool start_real_time = true;  // real-time jobs that have not started
  };

  ReadyView(const ReadyIndex& index, Eligibility eligible) : index_(index), eligible_(eligible) {}

  /// First in the order that the policy asked for; null when no job of the class is ready.
  const ScheduledJob* First(JobClass job_class) const;
  /// First of both classes; real-time jobs before best-effort ones.
  const ScheduledJob* RealTimeFirst() const;
  /// First of both classes, which must have the same order.
  const ScheduledJob* First() const;
  /// The ready job of the queue that was posted first; null when none is ready.
  const ScheduledJob* OldestOf(QueueId queue) const;
  /// The ready job of the client that was posted first, without those of its queue that have a
  /// tenant; null when none is ready. O(n) for n jobs of a tenant, or of a queue with tenants, that
  /// are ready but may not start.
  const ScheduledJob* OldestOf(ClientId client) const;
  /// Whether the job may submit another kernel now.
  bool IsReady(const ScheduledJob& job) const;

 private:
  bool Eligible(JobClass job_class) const {
    return job_class == JobClass::kRealTime ? eligible_.real_time : eligible_.best_effort;
  }
  bool MayStart(JobClass job_class) const {
    return eligible_.start_new && (job_class != JobClass::kRealTime || eligible_.start_real_time);
  }

  const ReadyIndex& index_;
  Eligibility eligible_;
};

struct SchedulingView {
  TimePoint now;
  ReadyView ready;
};

/// What to submit next: at most `ops` kernels of `job`. Kernels beyond the scheduler's `depth` are
/// left for later picks.
struct Decision {
  static constexpr std::uint64_t kFrontRank = 0;
  static constexpr std::uint64_t kLastRank = (std::uint64_t{1} << 63) - 1;

  std::optional<JobId> job;  // empty: submit nothing now
  std::uint32_t ops = 0;
  /// Order of kernels of one class on the device, under Ranks::kPolicy only: smaller first, equal
  /// ones in order of submission; at most kLastRank.
  std::uint64_t rank = 0;

  static Decision Wait() { return {}; }
  static Decision Run(const ScheduledJob& job, std::uint32_t ops = ~0u, std::uint64_t rank = 0);
  /// Runs a job that a view returned; null: waits.
  static Decision RunOrWait(const ScheduledJob* job, std::uint32_t ops = ~0u);
};

/// Called by one thread at a time, under the dispatcher's lock. Must be deterministic, take no
/// locks, and read no clock but view.now.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Called until the decision is to wait or nothing more fits. Must not allocate.
  virtual Decision Pick(const SchedulingView& view) = 0;

  /// How the view orders the jobs of each class. Called once, before the first Pick.
  virtual JobOrders orders() const { return {}; }

  /// Whether `other`, which is not finished, goes before `job`, which was posted later: for
  /// admission by deadline. By default real-time jobs go before best-effort ones, and the jobs of a
  /// class go in its order.
  virtual bool Precedes(const ScheduledJob& other, const ScheduledJob& job) const;

  /// Whether a client (ClientOf()) goes before all others of the best-effort class, because it is
  /// far behind its share. Pick() gives its jobs Decision::kFrontRank. Kernels that the
  /// device already has keep the rank of their own pick, and could wait for ever there. So the
  /// mechanism revokes them, and they are submitted again after the next pick. Only with
  /// SchedulerConfig::Preemption::kReset and Ranks::kPolicy, and without preempt_by_rank.
  virtual bool IsBehind(ClientId /*client*/) const { return false; }
  /// Whether IsBehind() is true for any client. O(1).
  virtual bool AnyBehind() const { return false; }

  /// Whether the answers of jobs that are done are held back. Read after each OnFinished(): as soon
  /// as it is false, all that were held end, at that time. It must be false when no job is left.
  virtual bool HoldsAnswers() const { return false; }

  /// A job was posted. May allocate. The job keeps its address until OnFinished.
  virtual void OnArrival(const ScheduledJob& /*job*/) {}
  /// `kernels` more kernels of the job were submitted, after a pick.
  virtual void OnSubmitted(const ScheduledJob& /*job*/, std::uint32_t /*kernels*/) {}
  /// `kernels` of those that OnSubmitted() counted are revoked because of IsBehind(), and will be
  /// submitted again. Not called for kernels that real-time work or another job revokes.
  virtual void OnRaised(const ScheduledJob& /*job*/, std::uint32_t /*kernels*/) {}
  /// The job ended, with any outcome. Called once for each OnArrival.
  virtual void OnFinished(const ScheduledJob& /*job*/) {}
};

}  // namespace lagoon
