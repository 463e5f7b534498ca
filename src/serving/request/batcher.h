#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cluster/ewma.h"
#include "sched/dispatcher.h"
#include "serving/batch/batch_queue.h"
#include "serving/batch/wanted_rows.h"
#include "serving/core/request.h"
#include "serving/request/flight.h"

namespace lagoon {

class PlanMaker;

/// Whether a batch can run with this plan of `rows` rows: one job, whose tensors all begin with the
/// rows.
bool FitsBatches(const ServedPlan& plan, std::int64_t rows);

/// Joins the requests of one class of a model into batches (Triton's dynamic_batching): each batch
/// is one job, whose input copies gather the requests' tensors and whose output copies scatter the
/// answers, without another copy. BatchQueue has the rules. Any thread may call any method.
///
/// - A batch is cancelled when all of its requests are. A request that is cancelled alone, or whose
///   deadline passes while its batch runs, is answered when the batch ends.
/// - The deadline of a batch is the latest of its requests' deadlines.
/// - A BatchLimiter may keep batches so small that they end within an SLO (BatchLimitSettings).
/// - A batch is no larger than the plans that are there allow. A larger plan is made then, below
///   all other work.
class Batcher final : public WaitingPlace {
 public:
  /// `priority`: of the requests (InferRequest::priority). All arguments outlive the batcher.
  Batcher(ServedModel& model, std::uint64_t priority, Dispatcher& dispatcher, PlanMaker& maker);
  /// All requests must have been answered.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// Takes a request. `plan`: for the request's own rows. Answers it at once if its deadline cannot
  /// be met behind what waits and runs (kTooLate), or if the queue is full: kUnavailable, but with
  /// Overflow::kNewestWins the oldest request is answered as superseded.
  void Add(const std::shared_ptr<Flight>& flight, const ServedPlan& plan);
  void Cancel(Flight& flight) override;
  Kind kind() const override { return &RequestWaits::batch; }

  /// The number of requests that wait for a batch.
  std::size_t Waiting() const;
  /// Rows that a batch may have now: max_batch_size, or less if a BatchLimiter or SetCeiling() says
  /// so.
  std::int64_t MostRows() const;
  /// From now on a batch has at most so many rows, at least one request. 0: no ceiling.
  void SetCeiling(std::int64_t rows);
  /// BatchLimiter::TakeNotice(); kNone if there is no limiter.
  BatchNotice TakeNotice();

 private:
  class Batch;

  /// A plan that larger batches would need.
  struct Wanted {
    std::string shape = {};       // BatchMember::shape
    std::vector<Dims> dims = {};  // by input, of any number of rows; empty: no plan is missing
    WantedRows rows = {};
    std::int64_t most_rows = 0;  // BatchQueue::MostRows()
  };

  BatchQueue::TimeOf Times(double slowdown, Wanted& wanted) const REQUIRES(mutex_);
  void Want(const BatchMember& member, std::int64_t rows, Wanted& wanted) const;
  /// `to_run`: counts as a use of the plan.
  std::shared_ptr<ServedPlan> PlanFor(const Flight& flight, std::int64_t rows, bool to_run) const;
  void Step();
  bool TakeStep();
  void Post(std::vector<BatchMember> members);
  Result<std::shared_ptr<Batch>> MakeBatch(std::vector<BatchMember>& members);
  Result<JobId> PostBatch(const std::shared_ptr<Batch>& batch);
  template <typename Why>
  void Refuse(const BatchMember& member, ErrorCode code, Why why);
  std::int64_t RowsNow() const REQUIRES(mutex_);
  void GiveBackPlace() REQUIRES(mutex_);
  double Slowdown() const REQUIRES(mutex_);
  TimePoint ExpectedEnd(const BatchMember& member) REQUIRES(mutex_);
  void Ended(Batch& batch, const JobResult& result);
  void Learn(const Batch& batch, const JobResult& result) REQUIRES(mutex_);
  void Answer(const BatchQueue::Expired& expired);
  static void Expire(const std::vector<BatchMember>& members);
  void RunTimer(const std::stop_token& stop);

  ServedModel& model_;
  const std::uint64_t priority_;
  Dispatcher& dispatcher_;
  PlanMaker& maker_;
  const Nanoseconds max_wait_;  // CoreOptions::max_wait; 0: requests wait on

  mutable Mutex mutex_;
  BatchQueue queue_ GUARDED_BY(mutex_);
  const std::unique_ptr<BatchLimiter> limiter_;   // null: none; used under the mutex
  std::int64_t ceiling_ GUARDED_BY(mutex_) = 0;   // SetCeiling()
  std::uint32_t posted_ GUARDED_BY(mutex_) = 0;   // batches
  TimePoint busy_until_ GUARDED_BY(mutex_) = {};  // when the posted batches are expected to end
  Ewma slowdown_ GUARDED_BY(mutex_){0.3};         // times of batches over those alone on the device
  std::vector<Batch*> running_ GUARDED_BY(mutex_);  // that were posted
  TimePoint next_time_ GUARDED_BY(mutex_) = kNoDeadline;
  CondVar timer_wake_;
  std::jthread timer_;  // last member
};

}  // namespace lagoon
