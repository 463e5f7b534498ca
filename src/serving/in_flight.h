#pragma once

// Requests between Infer and their answer.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sched/dispatcher.h"
#include "serving/core.h"
#include "serving/request_check.h"
#include "serving/served_model.h"

namespace lagoon {

class RequestInFlight;

/// All requests that a dispatcher has or is about to get; knows when there are none left. Any
/// thread.
class InFlightTable {
 public:
  InFlightTable() = default;
  InFlightTable(const InFlightTable&) = delete;
  InFlightTable& operator=(const InFlightTable&) = delete;

  /// False after Close(): the request must not be posted.
  bool Add(RequestInFlight& request);
  void Remove(RequestInFlight& request);

  /// No request is added any more; `why` is what the next ones are told. Idempotent: the first
  /// reason stays.
  void Close(std::string why);
  /// After Close().
  std::string why_closed();
  /// True when none is left, false at `until`.
  bool WaitUntilEmpty(TimePoint until);
  /// Cancels those in flight; one whose job is not known yet is cancelled by RequestInFlight::Post.
  void CancelAll(Dispatcher& dispatcher);
  /// To be asked after a request's job was noted: whether CancelAll may have missed it.
  bool cancelling() const { return cancelling_.load(); }

 private:
  Mutex mutex_;
  CondVar empty_;
  RequestInFlight* first_ GUARDED_BY(mutex_) = nullptr;  // a list through the requests themselves
  bool closed_ GUARDED_BY(mutex_) = false;
  std::string why_closed_ GUARDED_BY(mutex_);
  std::atomic<bool> cancelling_{false};
};

/// One request: holds what its job points at, and answers it. Shared by Infer, until the job's id
/// is noted, and by the job, until Finished; whichever ends last frees it.
class RequestInFlight final : public JobClient {
 public:
  struct Admission {
    TimePoint arrival;
    TimePoint deadline = kNoDeadline;
  };

  RequestInFlight(InferRequest request, InferCallback callback, ServedModel& model,
                  RequestBinding binding, Admission admission);

  /// Posts the job and returns its name, or answers the error and returns 0.
  static RequestHandle Post(const std::shared_ptr<RequestInFlight>& self, InFlightTable& table,
                            Dispatcher& dispatcher);

  void Finished(const JobResult& result) override;

 private:
  friend class InFlightTable;

  const Plan& plan() const { return model_.plans().at(size_); }
  void BindOutputs(const std::vector<std::size_t>& wanted);
  void Refuse(Error error);

  InferRequest request_;
  InferCallback callback_;
  ServedModel& model_;
  const Admission admission_;
  const std::size_t size_;  // of the batch, among the model's plans
  InferResponse response_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;  // one per plan output; null: not asked for

  InFlightTable* table_ = nullptr;         // set before the job is posted
  std::shared_ptr<RequestInFlight> self_;  // the job's share
  std::atomic<std::uint64_t> job_{0};      // 0: not known yet
  RequestInFlight* previous_ = nullptr;    // the table's list, under its mutex
  RequestInFlight* next_ = nullptr;
};

/// The answer to a job that ended in any way but kDone.
Error OutcomeError(const JobResult& result, const std::string& model);
Error TimeoutError(const std::string& model);

}  // namespace lagoon
