#pragma once

// Requests between Infer and their answer.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "program/parts.h"
#include "sched/dispatcher.h"
#include "serving/core/request.h"
#include "serving/model/request_check.h"
#include "serving/model/served_model.h"
#include "serving/request/loaded_version.h"

namespace lagoon {

class PlanMaker;
class RequestInFlight;

/// All requests that are posted to a dispatcher or about to be posted. Callers can wait until none
/// is left. Any thread.
class InFlightTable {
 public:
  InFlightTable() = default;
  InFlightTable(const InFlightTable&) = delete;
  InFlightTable& operator=(const InFlightTable&) = delete;

  /// Returns false after Close(): the request must not be posted then.
  bool Add(RequestInFlight& request);
  void Remove(RequestInFlight& request);

  /// From now on no request is added. `why`: the error message for later requests. Idempotent: the
  /// first reason stays. `lost`: the device was lost, so that requests which are cancelled from now
  /// on are answered that.
  void Close(std::string why, bool lost = false);
  bool lost() const { return lost_.load(); }
  /// The reason given to Close(). Only after Close().
  std::string why_closed();
  /// True when no request is left; false when `until` has passed.
  bool WaitUntilEmpty(TimePoint until);
  /// Cancels the requests in flight. RequestInFlight::Post cancels a request whose job id it had
  /// not stored yet.
  void CancelAll(Dispatcher& dispatcher);
  /// Cancels the request that got this handle from a PlanMaker and was posted since.
  void Cancel(RequestHandle awaited, Dispatcher& dispatcher);
  /// Whether CancelAll may have missed a request. Read it after the id of the request's job was
  /// stored.
  bool cancelling() const { return cancelling_.load(); }

 private:
  static ServedModel* ProgramOf(const RequestInFlight& request);
  static void CancelJob(ServedModel* program, JobId job, Dispatcher& dispatcher);

  Mutex mutex_;
  CondVar empty_;
  // Head of a list that is linked through the requests.
  RequestInFlight* first_ GUARDED_BY(mutex_) = nullptr;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::string why_closed_ GUARDED_BY(mutex_);
  std::atomic<bool> cancelling_{false};
  std::atomic<bool> lost_{false};
};

/// One request. Owns what its job points to, and answers the request. Shared by Infer, until the
/// job's id is stored, by a PlanMaker while the request waits for its plan, and by the job, until
/// Finished(). If its model runs in parts, each part is a job: the request goes on with the next
/// one when a job has finished.
class RequestInFlight final : public JobClient {
 public:
  struct Admission {
    TimePoint arrival;
    TimePoint deadline = kNoDeadline;
    TimePoint admitted = {};  // the edge has handed the request over
  };

  /// Keeps `model` until it is destroyed. Does not throw, so that no callback is lost.
  RequestInFlight(InferRequest request, InferCallback callback, ModelLease model,
                  RequestBinding binding, RequestPadding padding, Admission admission,
                  InFlightTable& table, PlanMaker& maker) noexcept;
  /// Answers with kResourceExhausted if the request was not answered: a thread that could not get
  /// memory has let go of it.
  ~RequestInFlight() override;
  RequestInFlight(const RequestInFlight&) = delete;
  RequestInFlight& operator=(const RequestInFlight&) = delete;

  ServedModel& model() const { return model_; }
  const LoadedVersion& version() const { return *lease_; }
  TimePoint deadline() const { return admission_.deadline; }
  std::uint64_t priority() const { return request_.priority; }
  /// The inputs of the part that comes next, and the plan of the part before (null: none has run).
  const std::vector<Dims>& dims() const { return binding_.dims; }
  std::span<const std::span<const std::byte>> inputs() const { return binding_.inputs; }
  ServedPlan* before() const { return before_.get(); }
  /// What decides the plan of that part, as far as that is known now.
  PlanKey Key() const { return model_.KeyOf(before(), binding_.dims, binding_.inputs); }
  /// The same with copies of what the plan is made of, so that the request may end meanwhile.
  WantedPlan Wanted() const { return model_.Want(before_, binding_.dims, binding_.inputs); }

  /// Makes room for the outputs of a run of `plan` (InferRequest::room).
  Status TakeRoomFor(const ServedPlan& plan);

  /// Posts the job with `plan` and returns its handle; or answers with the error and returns 0.
  static RequestHandle Post(const std::shared_ptr<RequestInFlight>& self,
                            std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher);

  // ---- While the request waits for its plan

  /// Counts the request as in flight. False, after an answer, if the core takes no more requests.
  bool Await(RequestHandle handle);
  RequestHandle awaited() const { return awaited_; }  // 0: Await was not called
  /// Posts a request that has waited.
  static void PostAwaited(const std::shared_ptr<RequestInFlight>& self,
                          std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher);
  /// Posts a part that did not wait. Await() was called.
  static void PostPart(const std::shared_ptr<RequestInFlight>& self,
                       std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher);
  /// Answers a request that has waited, or could not, unless it was answered before.
  void RefuseAwaited(Error error);

  // ---- As a member of a batch. Await() was called.

  /// Makes `plan`, of the whole batch, the request's. Adds the request's tensors to `parts`, behind
  /// those of the requests before.
  void BindInBatch(std::shared_ptr<ServedPlan> plan, JobParts& parts);
  /// The batch has ended: Finished() with the batch's place in the statistics.
  void FinishedInBatch(const JobResult& result, const StatisticsRecorder::Batch& batch);

  void Finished(const JobResult& result) override;

 private:
  friend class InFlightTable;

  const Plan& plan() const { return plan_->loaded->plan; }
  RequestHandle PostJob(const std::shared_ptr<RequestInFlight>& self,
                        std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher);
  Result<JobId> BindAndPost(const std::shared_ptr<RequestInFlight>& self, Dispatcher& dispatcher);
  Status BindTensors();
  bool Copies(const ServedPlan& plan, std::size_t output) const;
  Status TakeRoom(std::size_t bytes);
  OutputTensor* ResultTensor(std::size_t output);
  std::byte* MemoryOfResult(std::size_t output, const TensorSpec& spec);
  Status TakeResult(std::size_t output);
  /// Makes what the finished part has computed the inputs of the next one, and the results of the
  /// answer.
  Status TakeOutputs();
  void CutOutputs();
  void Record(const JobResult& result);
  void RecordLoad(const JobResult& result);
  Status End(const JobResult& job, const std::shared_ptr<RequestInFlight>& self);
  void Answer(Result<InferResponse> result);
  void Refuse(Error error);
  void Leave();

  const ModelLease lease_;  // first member: the others refer to the model
  ServedModel& model_;
  InferRequest request_;
  InferCallback callback_;  // empty once it was called
  const Admission admission_;
  RequestBinding binding_;
  const RequestPadding padding_;
  const std::size_t rows_;              // at least 1
  std::shared_ptr<ServedPlan> before_;  // of the last part that has finished
  std::shared_ptr<ServedPlan> plan_;    // null while the request waits for it
  InferResponse response_;
  std::vector<const void*> inputs_;  // one per plan input
  std::vector<void*> outputs_;       // one per plan output; null: nobody asks for it
  PartRun run_;                      // outputs: what outputs_ point to
  // Tensors between parts.
  std::vector<std::unique_ptr<std::byte[]>> between_;
  std::vector<std::shared_ptr<const MadeTensor>> made_between_;
  std::optional<JobResult> first_part_;
  std::size_t room_ = 0;  // bytes of the outputs of the parts so far
  std::optional<StatisticsRecorder::Batch> in_batch_;
  RequestHandle awaited_{};
  TimePoint awaited_since_{};

  InFlightTable& table_;
  PlanMaker& maker_;
  std::shared_ptr<RequestInFlight> self_;  // the job's reference to this request
  std::atomic<std::uint64_t> job_{0};      // 0: not known yet
  std::atomic<bool> cancel_{false};        // a handle that Await() was given is to be cancelled
  RequestInFlight* previous_ = nullptr;    // links of the table's list, under its mutex
  RequestInFlight* next_ = nullptr;
  bool listed_ = false;  // in the table; of the thread that has the request
};

/// The answer to a request whose job ended with another outcome than kDone.
Error OutcomeError(const JobResult& result, const std::string& model);
Error TimeoutError(const std::string& model);

}  // namespace lagoon
