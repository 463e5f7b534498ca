#include "serving/request/flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "program/parts.h"
#include "serving/core/fleet_member.h"
#include "serving/request/ensemble_run.h"
#include "serving/request/flights.h"
#include "serving/request/sequences.h"

namespace lagoon {

Flight::Flight(std::shared_ptr<const Request> request, std::string id, InferCallback callback,
               ModelLease model, const Device& device) noexcept
    : lease_(std::move(model)),
      model_(*lease_->model),
      device_(device),
      request_(std::move(request)),
      callback_(std::move(callback)),
      tensors_(model_, *request_) {
  response_.id = std::move(id);
}

Flight::~Flight() {
  Refuse({ErrorCode::kResourceExhausted, "out of memory"});
  Leave();
}

void Flight::Leave() {
  if (std::exchange(listed_, false)) device_.flights.Remove(*this);
}

// ---- Where the request is. seq_cst: either HeedCancel() of the thread that has moved the request
// sees the flag of Cancel(), or the thread that cancels sees where the request has come to.

void Flight::WaitIn(WaitingPlace& place) {
  begun_ = true;
  const TimePoint now = Now();
  CountWait(now);
  waits_since_ = now;
  plan_ = nullptr;
  place_.store(&place);
}

/// The time in the place where the request is, if it is in one.
void Flight::CountWait(TimePoint until) {
  const WaitingPlace* const place = place_.load();
  if (place == nullptr || place->kind() == nullptr) return;
  const Nanoseconds wait = std::max(until - waits_since_, Nanoseconds(0));
  waits_.*place->kind() += wait;
}

void Flight::Cancel() {
  cancelled_.store(true);
  HeedCancel();
}

void Flight::HeedCancel() {
  if (!cancelled()) return;
  // Where memory runs out, the request goes on.
  const Status heeded = WithoutExceptions([&]() -> Status {
    WaitingPlace* const place = place_.load();
    if (place != nullptr) {
      place->Cancel(*this);
    } else if (const std::uint64_t job = job_.load(); job != 0) {
      model_.Cancel(JobId{job}, device_.dispatcher);
    }
    return {};
  });
  if (!heeded) spdlog::warn("a request is not cancelled: {}", heeded.error().message);
}

void Flight::Post(std::shared_ptr<ServedPlan> plan) {
  const std::shared_ptr<Flight> self = shared_from_this();  // the job may end before this does
  begun_ = true;
  plan_ = std::move(plan);
  const TimePoint now = Now();
  CountWait(now);
  if (place_.exchange(nullptr) != nullptr) {
    const Nanoseconds wait = now - waits_since_;
    response_.plan_wait += wait;
    if (first_part_) response_.plan_wait_between += wait;
  }
  Result<JobId> job = WithoutExceptions([&] { return PostJob(); });
  if (!job) {
    self_.reset();
    return Refuse(std::move(job).error());
  }
  // The job may have finished already, and the next part may have been posted: ids only grow.
  std::uint64_t known = job_.load();
  while (known < Raw(*job) && !job_.compare_exchange_weak(known, Raw(*job))) {
  }
  HeedCancel();
}

/// After an error or an exception no job was posted.
Result<JobId> Flight::PostJob() {
  JobSpec spec;
  LAGOON_RETURN_IF_ERROR(tensors_.Bind(*plan_, spec));
  spec.deadline = request_->deadline;
  spec.tenant = request_->tenant_number();
  spec.client = this;
  spec.continues = plan_->links.next.has_value();
  spec.continued = first_part_.has_value();
  self_ = shared_from_this();
  Result<JobId> job = model_.Post(spec, *plan_, request_->asked.priority, device_.dispatcher);
  if (!job) job.error().message.insert(0, fmt::format("model '{}': ", model_.name()));
  return job;
}

void Flight::JoinBatch(std::shared_ptr<ServedPlan> plan, JobParts& parts) {
  plan_ = std::move(plan);
  tensors_.BindInBatch(*plan_, parts);
}

void Flight::Sent(std::span<const std::span<const std::byte>> outputs,
                  std::function<void()> taken) {
  InferResponse answer;
  answer.model = model_.name();
  answer.version = model_.version();
  answer.id = response_.id;
  answer.part = AnswerPart::kMore;
  answer.outputs = tensors_.CopyOutputs(*plan_, outputs);
  request_->asked.stream->Give(std::move(answer), std::move(taken));
}

// ---- The end

void Flight::Finished(const JobResult& result, const StatisticsRecorder::Batch& batch) {
  in_batch_ = batch;
  Finished(result);
}

void Flight::Finished(const JobResult& result) {
  // Keeps this object alive until the end of the function.
  const std::shared_ptr<Flight> self = shared_from_this();
  self_.reset();
  Status ended = WithoutExceptions([&] { return End(result, self); });
  if (!ended) Refuse(std::move(ended).error());
}

/// Answers the request, or goes on with its next part. After an error neither has happened.
Status Flight::End(const JobResult& job, const std::shared_ptr<Flight>& self) {
  JobResult result = job;
  // An engine made other shapes than the plan has. The next plan expects that.
  if (result.outcome == Outcome::kFailed && plan_ != nullptr && Outdated(plan())) {
    GoOn(result, self);
    return {};
  }
  if (result.outcome == Outcome::kCancelled && device_.flights.lost()) {
    result.outcome = Outcome::kFailed;
  }
  if (result.outcome == Outcome::kDone) {
    LAGOON_RETURN_IF_ERROR(tensors_.TakeOutputs(*plan_, std::move(result.made)));
    if (plan_->links.next) {
      before_ = std::move(plan_);
      GoOn(result, self);
      return {};
    }
    if (model_.settings().decoupled) {
      response_.part = AnswerPart::kEnd;
    } else {
      LAGOON_ASSIGN_OR_RETURN(response_.outputs, tensors_.TakeAnswer());
    }
    response_.model = model_.name();
    response_.version = model_.version();
  }
  if (first_part_) {
    result.posted = first_part_->posted;
    result.started = first_part_->started;
    result.first_block = first_part_->first_block;
    result.inputs_copied = first_part_->inputs_copied;
  }
  if (result.outcome != Outcome::kDone) {
    Error error = ErrorOf(result);
    Record(result);
    Answer(tl::unexpected<Error>(std::move(error)));
  } else {
    Record(result);
    RecordLoad(result);
    response_.job = std::move(result);
    Answer(std::move(response_));
  }
  Leave();
  return {};
}

// ---- In a program

InferResponse Flight::AnswerWith(Made made) {
  InferResponse answer;
  answer.model = model_.name();
  answer.version = model_.version();
  answer.id = response_.id;
  answer.part = AnswerPart::kMore;
  answer.outputs = tensors_.TakeMade(std::move(made.outputs));
  answer.parameters = std::move(made.parameters);
  return answer;
}

void Flight::FinishedOutside(const JobResult& result, Made made, TimePoint taken,
                             const StatisticsRecorder::Batch& batch) {
  const std::shared_ptr<Flight> self = shared_from_this();
  CountWait(taken);
  outside_ = true;
  if (result.outcome != Outcome::kDone) return Finished(result);
  in_batch_ = batch;
  Status ended = WithoutExceptions([&] { return EndOutside(result, made); });
  if (!ended) Refuse(std::move(ended).error());
}

/// Answers the request. After an error it has not.
Status Flight::EndOutside(const JobResult& result, Made& made) {
  if (model_.settings().decoupled) response_.part = AnswerPart::kEnd;
  response_.outputs = tensors_.TakeMade(std::move(made.outputs));
  response_.parameters = std::move(made.parameters);
  response_.model = model_.name();
  response_.version = model_.version();
  response_.job = result;
  Record(result);
  Answer(std::move(response_));
  Leave();
  return {};
}

// ---- Of an ensemble

Status Flight::RunSteps(StepRunner& runner, std::vector<ModelLease> steps) {
  steps_ = std::make_unique<EnsembleRun>(*this, runner, std::move(steps));
  WaitIn(*steps_);
  steps_->Advance();
  HeedCancel();
  return {};
}

bool Flight::AdvanceSteps() {
  if (steps_ == nullptr) return false;
  steps_->Advance();
  return true;
}

void Flight::FinishedSteps(Result<std::vector<OutputTensor>> outputs, InferResponse times) {
  Status ended = WithoutExceptions([&] { return EndSteps(outputs, times); });
  if (!ended) Refuse(std::move(ended).error());
}

/// Answers the request. After an error it has not.
Status Flight::EndSteps(Result<std::vector<OutputTensor>>& outputs, InferResponse& times) {
  times.job.outcome = Outcome::kDone;
  waits_.plan = times.plan_wait;
  if (!outputs) {
    Error error = ErrorOfSteps(std::move(outputs).error());
    using enum ErrorCode;
    const bool expired = error.code == kDeadlineExceeded;
    if (error.code == kUnavailable) return tl::unexpected<Error>(std::move(error));
    times.job.outcome = error.code == kCancelled ? Outcome::kCancelled
                        : expired                ? Outcome::kExpired
                                                 : Outcome::kFailed;
    Record(times.job);
    Answer(tl::unexpected<Error>(std::move(error)));
    Leave();
    return {};
  }
  response_.outputs = tensors_.TakeMade(*std::move(outputs));
  response_.model = model_.name();
  response_.version = model_.version();
  response_.plan_wait = times.plan_wait;
  response_.plan_wait_between = times.plan_wait_between;
  response_.job = std::move(times.job);
  Record(response_.job);
  Answer(std::move(response_));
  Leave();
  return {};
}

/// As the client of the ensemble sees it.
Error Flight::ErrorOfSteps(Error error) const {
  const bool ends = error.code == ErrorCode::kCancelled;
  if (ends && device_.flights.ended()) {
    error = {ErrorCode::kUnavailable, device_.flights.why_closed()};
  } else if (ends && device_.flights.lost()) {
    error = {ErrorCode::kUnavailable, "the device was lost"};
  } else if (error.code == ErrorCode::kDeadlineExceeded) {
    return {error.code, fmt::format("{}: {}", TimeoutError(model_.name()).message, error.message)};
  }
  error.message.insert(0, fmt::format("model '{}': ", model_.name()));
  return error;
}

/// Of a job that has ended otherwise than well.
Error Flight::ErrorOf(const JobResult& result) const {
  // A program's error has its text already.
  if (outside_ && result.outcome == Outcome::kFailed && result.error) return *result.error;
  Error error = OutcomeError(result, model_.name());
  if (error.code != ErrorCode::kCancelled || !device_.flights.ended()) return error;
  return {ErrorCode::kUnavailable,
          fmt::format("model '{}': {}", model_.name(), device_.flights.why_closed())};
}

void Flight::GoOn(const JobResult& result, const std::shared_ptr<Flight>& self) {
  if (!first_part_) first_part_ = result;
  jobs_before_.push_back(result.job);
  device_.parts.Continue(self);
}

void Flight::Refuse(Error error) {
  if (callback_ != nullptr) {
    model_.recorder().RecordRefused(error.code, Now() - request_->asked.arrival);
    Answer(tl::unexpected<Error>(std::move(error)));
  }
  Leave();
}

void Flight::Answer(Result<InferResponse> result) {
  InferCallback callback;
  callback.swap(callback_);
  if (sequences_ != nullptr) std::exchange(sequences_, nullptr)->Ended(*this, result);
  request_.reset();  // if nothing else reads it, the client's memory is free now
  try {
    callback(std::move(result));
  } catch (const std::exception& error) {
    spdlog::error("model '{}': the answer to a request is lost: {}", model_.name(), error.what());
  }
}

RequestEnd Flight::EndOf(const JobResult& result) const {
  RequestEnd end;
  end.job_class = model_.ClassOf(request_->asked.priority);
  end.received = std::max(request_->asked.received, request_->asked.arrival);
  end.admitted = request_->admitted;
  end.deadline = request_->deadline;
  end.late = IsLate(result, request_->deadline);
  end.job = result;
  end.job.made.clear();
  end.job.error.reset();
  end.waits = waits_;
  end.waits_between = response_.plan_wait_between;
  if (result.job == JobId{} && !first_part_ && steps_ == nullptr && !outside_) {
    // No job: all of the time was in waiting places.
    end.job.posted = end.job.started = result.finished;
  }
  if (outside_) end.job.posted = end.job.started;  // RequestWaits::batch has the time before
  return end;
}

void Flight::Record(const JobResult& result) {
  if (!outside_) CountWait(in_batch_ ? result.posted : result.finished);
  const bool tells = device_.late != nullptr && IsLate(result, request_->deadline);
  if (tells || request_->asked.end != nullptr) {
    const RequestEnd end = EndOf(result);
    if (request_->asked.end != nullptr) *request_->asked.end = end;
    if (tells) {
      std::vector<JobId> jobs = jobs_before_;
      jobs.push_back(result.job);
      device_.late->Add({.model = model_.name(),
                         .version = model_.version(),
                         .id = response_.id,
                         .end = end,
                         .jobs = std::move(jobs)},
                        request_->asked, request_->off_core);
    }
  }
  model_.recorder().RecordFinished(result, {request_->asked.arrival, request_->deadline,
                                            static_cast<std::size_t>(request_->rows), in_batch_,
                                            model_.ClassOf(request_->asked.priority)});
}

/// Waiting for the device counts as neither the host's time nor the device's.
void Flight::RecordLoad(const JobResult& result) {
  LoadRecorder& load = model_.load();
  const TimePoint arrival = request_->asked.arrival;
  load.Answered(result.finished - arrival, result.finished);
  const StatisticsRecorder::Batch batch =
      in_batch_.value_or(StatisticsRecorder::Batch{request_->rows, true});
  if (!batch.counts) return;
  const TimePoint copied = std::min(result.inputs_copied, result.computed);
  const Nanoseconds before = request_->admitted - arrival + (copied - result.started);
  load.Ended({.rows = batch.rows,
              .took = result.finished - result.started,
              .host = before + (result.finished - result.computed),
              .device = result.computed - copied},
             result.finished);
}

Error OutcomeError(const JobResult& result, const std::string& model) {
  switch (result.outcome) {
    case Outcome::kExpired:
      return TimeoutError(model);
    case Outcome::kSuperseded:
      return {ErrorCode::kUnavailable, fmt::format("model '{}': {}", model, kSuperseded)};
    case Outcome::kTooLate:
      return {
          ErrorCode::kUnavailable,
          fmt::format("model '{}': would be late: with the requests that go before it, the "
                      "request would take {:.3f} ms",
                      model, std::chrono::duration<double, std::milli>(result.expected).count())};
    case Outcome::kNotStarted:
      return {ErrorCode::kUnavailable,
              fmt::format("model '{}': the device had no time for the request within {:.1f} s, the "
                          "longest that a best-effort request waits (--max-wait); try again later",
                          model,
                          std::chrono::duration<double>(result.finished - result.posted).count())};
    case Outcome::kCancelled:
      return {ErrorCode::kCancelled, fmt::format("model '{}': request cancelled", model)};
    case Outcome::kFailed:
      if (result.error != nullptr) {
        return {result.error->code, fmt::format("model '{}': {}", model, result.error->message)};
      }
      return {ErrorCode::kUnavailable, fmt::format("model '{}': the device was lost", model)};
    case Outcome::kDone:
      break;
  }
  CheckFailed("an Outcome that is an error", __FILE__, __LINE__);
}

Error TimeoutError(const std::string& model) {
  return {ErrorCode::kDeadlineExceeded, fmt::format("Request timeout expired: model '{}'", model)};
}

JobResult WithoutJob(Outcome outcome, TimePoint posted) {
  JobResult result;
  result.outcome = outcome;
  const TimePoint now = Now();
  result.posted = posted;
  result.started = result.first_block = result.inputs_copied = now;
  result.computed = result.finished = now;
  return result;
}

}  // namespace lagoon
