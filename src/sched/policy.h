#pragma once

// All that a scheduling policy sees. A policy ranks; the mechanism (dispatcher) revokes, submits
// and enforces limits. See docs/schedulers.md for how to add one.

#include <array>
#include <cstdint>
#include <optional>

#include "sched/job.h"
#include "sched/ready_index.h"

namespace lagoon {

/// Orders in which the view offers ready jobs; ties go to the job posted first.
enum class By : std::uint8_t {
  kArrival,           // order of posting
  kClassThenArrival,  // real-time first
};

/// The jobs that may take another kernel now. Reading is O(1): the indexes are kept ordered.
class ReadyView {
 public:
  ReadyView(const ReadyIndex& index, bool best_effort, bool start_new)
      : index_(index), best_effort_(best_effort), start_new_(start_new) {}

  /// Null when nothing is ready.
  const ScheduledJob* First(By order) const;

 private:
  const ScheduledJob* FirstOf(JobClass job_class) const;

  const ReadyIndex& index_;
  bool best_effort_;  // whether best-effort jobs are eligible
  bool start_new_;    // whether jobs without work on the device are eligible
};

struct SchedulingView {
  TimePoint now;
  ReadyView ready;
};

/// What to submit next. Ops beyond the device-queue depth of the scheduler are left for later
/// picks.
struct Decision {
  std::optional<JobId> job;  // empty: nothing now
  std::uint32_t ops = 0;

  static Decision Wait() { return {}; }
  static Decision Run(const ScheduledJob& job, std::uint32_t ops = ~0u);
};

/// One thread at a time (the dispatcher's), no locks, no clock but view.now. Deterministic.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Called until it waits or nothing more fits.
  virtual Decision Pick(const SchedulingView& view) = 0;
};

}  // namespace lagoon
