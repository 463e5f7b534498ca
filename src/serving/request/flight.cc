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
  waits_since_ = Now();
  plan_ = nullptr;
  place_.store(&place);
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
  if (place_.exchange(nullptr) != nullptr) {
    const Nanoseconds wait = Now() - waits_since_;
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
    Error error = OutcomeError(result, model_.name());
    if (error.code == ErrorCode::kCancelled && device_.flights.ended()) {
      error = {ErrorCode::kUnavailable,
               fmt::format("model '{}': {}", model_.name(), device_.flights.why_closed())};
    }
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

void Flight::GoOn(const JobResult& result, const std::shared_ptr<Flight>& self) {
  if (!first_part_) first_part_ = result;
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

void Flight::Record(const JobResult& result) {
  model_.recorder().RecordFinished(result, {request_->asked.arrival, request_->deadline,
                                            static_cast<std::size_t>(request_->rows), in_batch_});
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
