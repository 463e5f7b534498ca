#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/time.h"
#include "sched/dispatcher.h"
#include "sched/job_queue.h"

namespace lagoon {

/// How a thread waits for a job.
struct CallerOptions {
  /// The thread runs blocks of the job meanwhile, in the place of a compute unit that has no work
  /// (Device::Help). Only real-time jobs gain: a best-effort job may run in the background, where
  /// the thread cannot help.
  bool works = true;
  /// If the thread works and the job's expected time is known and shorter than this, no other unit
  /// is woken for the job.
  Nanoseconds inline_below = std::chrono::microseconds(50);
  /// How long the thread looks at the result before it sleeps, once it has nothing to run.
  Nanoseconds spin = std::chrono::microseconds(20);
};

/// A job that is posted again and again, and waited for. A run allocates nothing, and makes no
/// system call but those of futexes. One thread at a time uses the object, but any thread may call
/// Cancel().
///
/// Not from within JobClient::Finished(): Run() and Wait(). They would wait for ever.
class CallerRun final : private JobClient {
 public:
  /// `dispatcher` is borrowed, and outlives the object. So is `cancelled`: a run that is posted
  /// while it is true ends as Outcome::kCancelled. Null: there is no such flag.
  explicit CallerRun(Dispatcher& dispatcher, const std::atomic<bool>* cancelled = nullptr);
  /// No run may be under way.
  ~CallerRun() override;
  CallerRun(const CallerRun&) = delete;
  CallerRun& operator=(const CallerRun&) = delete;

  /// Says what to run from now on, and allocates what runs need. No run may be under way. Takes all
  /// of `spec` but `deadline` and `client`. What `spec` points to must outlive the runs, except the
  /// arrays of `inputs` and `outputs`, which are copied. Errors are those of Dispatcher::Post().
  Status Prepare(const JobSpec& spec);

  /// Where the tensors of the next run lie, as JobSpec::inputs and outputs say: change the pointers
  /// between runs. As many as Prepare() got.
  std::span<const void*> inputs() { return job_.inputs; }
  std::span<void*> outputs() { return job_.outputs; }

  /// Posts the job, and returns when it has finished: result() says how. The calling thread itself
  /// sees to it that the job ends at `deadline`. If the thread works for another job of the same or
  /// a better class at that moment, a block of that job ends first. False: the queue is full, and
  /// nothing was posted (Dispatcher::FullError).
  bool Run(TimePoint deadline, const CallerOptions& options = {});

  /// Posts the job and returns. False: as Run(). `then`: Finished() is called on any thread, as
  /// JobClient says, before Wait() returns. It may call Prepare() and Start() of this object; then
  /// Wait() waits for that run. Null: no call.
  bool Start(TimePoint deadline, JobClient* then = nullptr);
  /// Waits for the run that Start() began, at most until `until`, and works meanwhile. True: no run
  /// is under way.
  bool Wait(TimePoint until, const CallerOptions& options = {});
  /// Whether no run is under way.
  bool done() const { return (word_.load(std::memory_order_acquire) & kHelpDone) != 0; }

  /// Any thread. The run under way finishes as Outcome::kCancelled, unless it has finished before.
  /// If a thread sets `cancelled` first, a run that begins at this moment is cancelled in any case.
  void Cancel();

  /// Of the last run, until the next one.
  const JobResult& result() const { return job_.result; }
  /// The queue that Prepare() got.
  QueueId queue() const { return job_.queue_id; }

 private:
  void Finished(const JobResult& result) override;
  bool Post(TimePoint deadline, bool caller_waits);
  bool Await(TimePoint until, const CallerOptions& options, BorrowedUnit unit);
  bool Sleep(TimePoint until);

  Dispatcher& dispatcher_;
  Job job_;
  JobClient* then_ = nullptr;
  // Set during a call of `then_`: where Start() says that it was called.
  bool* restarted_ = nullptr;
  std::atomic<JobId> id_{};  // of the last run
  // kHelpDone: no run is under way. kSleeps: a thread sleeps until the run is over.
  static constexpr std::uint32_t kSleeps = 2;
  std::atomic<std::uint32_t> word_{kHelpDone};
};

}  // namespace lagoon
