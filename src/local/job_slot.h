#pragma once

// A job that is posted again and again, and waited for.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "sched/dispatcher.h"

namespace lagoon {

/// One thread at a time uses a slot, but any thread may call Cancel(). Not from within
/// JobClient::Finished(): Run() and Wait(), which would wait for ever.
class JobSlot final : private JobClient {
 public:
  /// `dispatcher` outlives the slot. `cancelled`: a job that is posted while it is true ends as
  /// Outcome::kCancelled.
  JobSlot(Dispatcher& dispatcher, const std::atomic<bool>& cancelled)
      : dispatcher_(dispatcher), cancelled_(cancelled) {}
  /// No job may be under way.
  ~JobSlot() override = default;
  JobSlot(const JobSlot&) = delete;
  JobSlot& operator=(const JobSlot&) = delete;

  /// Says what to run from now on: all of `spec` but `deadline` and `client`. The arrays of inputs
  /// and outputs are copied. No job may be under way.
  void Prepare(const JobSpec& spec);
  /// Where the tensors of the next job lie: change the pointers between jobs.
  std::span<const void*> inputs() { return inputs_; }
  std::span<void*> outputs() { return outputs_; }

  /// Posts the job, and returns when it has finished. Errors are those of Dispatcher::Post().
  Status Run(TimePoint deadline, Nanoseconds spin);
  /// Posts the job and returns. `then`: Finished() is called on any thread, before Wait() returns.
  /// It may call Prepare() and Start(); then Wait() waits for that job. Null: no call.
  Status Start(TimePoint deadline, JobClient* then);
  /// Waits at most until `until`. True: no job is under way.
  bool Wait(TimePoint until, Nanoseconds spin);
  bool done() const { return (word_.load(std::memory_order_acquire) & kDone) != 0; }
  void Cancel();

  /// Of the last job, until the next one.
  const JobResult& result() const { return result_; }

 private:
  static constexpr std::uint32_t kDone = 1;    // no job is under way
  static constexpr std::uint32_t kSleeps = 2;  // a thread sleeps until the job is over

  void Finished(const JobResult& result) override;

  Dispatcher& dispatcher_;
  const std::atomic<bool>& cancelled_;
  JobSpec spec_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  JobResult result_;
  JobClient* then_ = nullptr;
  bool* restarted_ = nullptr;  // during a call of `then_`: where Start() says that it was called
  std::atomic<JobId> id_{};    // of the last job
  std::atomic<std::uint32_t> word_{kDone};
};

}  // namespace lagoon
