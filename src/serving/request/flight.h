#pragma once

// One request between Infer and its answer.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sched/dispatcher.h"
#include "sched/job.h"
#include "serving/core/statistics.h"
#include "serving/late/late_requests.h"
#include "serving/request/loaded_version.h"
#include "serving/request/request.h"
#include "serving/request/request_tensors.h"

namespace lagoon {

class EnsembleRun;
class Flight;
class Flights;
class StepRunner;
class Sequences;

/// Where requests wait for a job: for their plans, or for a batch.
class WaitingPlace {
 public:
  /// What the requests here wait for. Null: other requests run for them, which count their own.
  using Kind = Nanoseconds RequestWaits::*;
  virtual Kind kind() const = 0;
  /// Ends the request as cancelled, if it is here. Any thread.
  virtual void Cancel(Flight& flight) = 0;

 protected:
  ~WaitingPlace() = default;
};

/// Posts the jobs behind the first one.
class NextParts {
 public:
  /// Posts the next part of a request, or the same part with another plan. Called when a job has
  /// finished, by a thread that must not wait.
  virtual void Continue(std::shared_ptr<Flight> flight) = 0;

 protected:
  ~NextParts() = default;
};

/// Carries a request to its answer, and says where the request is: it waits in a WaitingPlace (a
/// batch that runs is in one too), or a job has it. Whoever moves the request on has it alone, and
/// holds a reference; Cancel() comes from any thread at any time. If the model runs in parts, each
/// part is a job: the request goes on with the next one when a job has finished.
class Flight final : public JobClient, public std::enable_shared_from_this<Flight> {
 public:
  /// What all requests of a device use.
  struct Device {
    Flights& flights;
    NextParts& parts;
    Dispatcher& dispatcher;
    const LateRequests* late = nullptr;  // null: nothing is recorded of late requests
  };

  /// Keeps `model` until it is destroyed. Does not throw, so that no callback is lost.
  Flight(std::shared_ptr<const Request> request, std::string id, InferCallback callback,
         ModelLease model, const Device& device) noexcept;
  /// Answers with kResourceExhausted if the request was not answered: a thread that could not get
  /// memory has let go of it.
  ~Flight() override;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  RequestHandle handle() const { return handle_; }
  ServedModel& model() const { return model_; }
  const LoadedVersion& version() const { return *lease_; }
  /// Until the answer.
  const Request& request() const { return *request_; }
  /// The shapes of the inputs of the part that comes next, and what decides its plan, as far as
  /// that is known now.
  const std::vector<Dims>& dims() const { return tensors_.dims(); }
  PlanKey Key() const { return model_.KeyOf(before_.get(), dims(), tensors_.inputs()); }
  /// The same with copies of what the plan is made of, so that the request may end meanwhile.
  WantedPlan Wanted() const { return model_.Want(before_, dims(), tensors_.inputs()); }
  /// The request has waited, or a job has had it.
  bool begun() const { return begun_; }

  /// Makes room for the outputs of a run of `plan` (InferRequest::room).
  Status TakeRoomFor(const ServedPlan& plan) { return tensors_.TakeRoomFor(plan); }

  // ---- Of a sequence

  /// The request is one of `sequences`, which hears of its end (Sequences::Ended).
  void Join(Sequences& sequences) {
    sequence_id_ = request_->asked.sequence.id();
    sequences_ = &sequences;
  }
  /// Also after the answer: a thread that cancels may come that late.
  const SequenceId& sequence_id() const { return sequence_id_; }
  /// An input of the model that the client does not send. Before the first job. `owner` keeps
  /// `data`; null: it lives as long as the model.
  void GiveInput(std::size_t input, const Dims& dims, std::span<const std::byte> data,
                 std::shared_ptr<const void> owner) {
    tensors_.GiveInput(input, dims, data, std::move(owner));
  }

  // ---- The ways on

  /// The request goes to `place` now. Once it is there, HeedCancel() must be called.
  void WaitIn(WaitingPlace& place);
  /// Posts a job that runs `plan`, or answers with the error.
  void Post(std::shared_ptr<ServedPlan> plan);
  /// The request runs in a batch of its place, by `plan` of the whole batch: adds its tensors to
  /// `parts`, behind those of the requests before.
  void JoinBatch(std::shared_ptr<ServedPlan> plan, JobParts& parts);
  /// The job has ended, or the request without a job: answers, or goes on with the next part.
  void Finished(const JobResult& result) override;
  void AlmostFinished() override {
    if (request_->asked.near_end != nullptr) request_->asked.near_end->AlmostFinished();
  }
  void Sent(std::span<const std::span<const std::byte>> outputs,
            std::function<void()> taken) override;
  /// The batch has ended. `batch`: its place in the statistics.
  void Finished(const JobResult& result, const StatisticsRecorder::Batch& batch);

  // ---- In a program (PythonQueue)

  const std::string& id() const { return response_.id; }
  std::shared_ptr<const Request> KeepRequest() const { return request_; }
  /// What a program has made for an answer.
  struct Made {
    std::vector<OutputTensor> outputs;  // of those that were asked for, in that order
    std::vector<RequestParameter> parameters;
  };
  /// One of the answers of a decoupled model.
  InferResponse AnswerWith(Made made);
  /// The program is done with the request, or the request ends before: answers. `taken`: until then
  /// the request was in its place. `made`: if that went well. Of an error, `result` has the text.
  void FinishedOutside(const JobResult& result, Made made, TimePoint taken,
                       const StatisticsRecorder::Batch& batch);

  // ---- Of an ensemble

  /// The request waits for those of the steps (EnsembleRun), whose models are leased. After an
  /// error or an exception no step was started.
  Status RunSteps(StepRunner& runner, std::vector<ModelLease> steps);
  /// Goes on with the steps, now or on the thread of NextParts. False: the request has none.
  bool AdvanceSteps();
  void Continue() { device_.parts.Continue(shared_from_this()); }
  /// Answers with what the steps have made. `times`: the stages and plan_wait; no outputs.
  void FinishedSteps(Result<std::vector<OutputTensor>> outputs, InferResponse times);

  /// Answers with the error, unless the request was answered before.
  void Refuse(Error error);

  // ---- Cancelling: any thread

  /// Wherever the request is. Ignored once it was answered.
  void Cancel();
  bool cancelled() const { return cancelled_.load(); }
  /// Does what a Cancel() asked for that came before the request was where it is now.
  void HeedCancel();

 private:
  friend class Flights;

  const Plan& plan() const { return plan_->loaded->plan; }
  Result<JobId> PostJob();
  Status EndOutside(const JobResult& result, Made& made);
  Error ErrorOf(const JobResult& result) const;
  Status EndSteps(Result<std::vector<OutputTensor>>& outputs, InferResponse& times);
  Error ErrorOfSteps(Error error) const;
  Status End(const JobResult& job, const std::shared_ptr<Flight>& self);
  void GoOn(const JobResult& result, const std::shared_ptr<Flight>& self);
  void CountWait(TimePoint until);
  RequestEnd EndOf(const JobResult& result) const;
  void Record(const JobResult& result);
  void RecordLoad(const JobResult& result);
  void Answer(Result<InferResponse> result);
  void Leave();

  const ModelLease lease_;  // first member: the others refer to the model
  ServedModel& model_;
  const Device device_;
  std::shared_ptr<const Request> request_;  // null once the callback is called
  InferCallback callback_;                  // empty once it was called
  RequestTensors tensors_;
  std::unique_ptr<EnsembleRun> steps_;  // null: the model is no ensemble
  Sequences* sequences_ = nullptr;      // null: the request is of none, or was answered
  SequenceId sequence_id_;
  std::shared_ptr<ServedPlan> before_;  // of the last part that has finished
  std::shared_ptr<ServedPlan> plan_;    // null while the request waits for it
  InferResponse response_;
  std::optional<JobResult> first_part_;
  std::vector<JobId> jobs_before_;  // of the parts before
  std::optional<StatisticsRecorder::Batch> in_batch_;
  RequestWaits waits_;
  TimePoint waits_since_{};
  bool begun_ = false;
  bool outside_ = false;          // a program has had it
  std::shared_ptr<Flight> self_;  // the job's reference to this request

  // Where the request is.
  std::atomic<WaitingPlace*> place_{nullptr};  // null: a job has it, or nothing yet
  std::atomic<std::uint64_t> job_{0};          // the last one; 0: not known yet
  std::atomic<bool> cancelled_{false};

  // The links of Flights, under its mutex.
  RequestHandle handle_{};  // set before others know the request
  Flight* previous_ = nullptr;
  Flight* next_ = nullptr;
  bool listed_ = false;  // of the thread that has the request
};

/// The answer to a request whose job ended with another outcome than kDone.
Error OutcomeError(const JobResult& result, const std::string& model);
Error TimeoutError(const std::string& model);
/// The result of a request that ends without a job. `posted`: when it began to wait.
JobResult WithoutJob(Outcome outcome, TimePoint posted);

}  // namespace lagoon
