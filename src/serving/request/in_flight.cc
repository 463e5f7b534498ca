#include "serving/request/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "program/parts.h"
#include "serving/request/plan_maker.h"

namespace lagoon {

bool InFlightTable::Add(RequestInFlight& request) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  request.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &request;
  first_ = &request;
  request.listed_ = true;
  return true;
}

void InFlightTable::Remove(RequestInFlight& request) {
  const MutexLock lock(mutex_);
  if (request.previous_ != nullptr) request.previous_->next_ = request.next_;
  if (request.next_ != nullptr) request.next_->previous_ = request.previous_;
  if (first_ == &request) first_ = request.next_;
  if (first_ == nullptr && closed_) empty_.NotifyAll();
}

void InFlightTable::Close(std::string why, bool lost) {
  if (lost) lost_.store(true);
  const MutexLock lock(mutex_);
  if (!closed_) why_closed_ = std::move(why);
  closed_ = true;
}

std::string InFlightTable::why_closed() {
  const MutexLock lock(mutex_);
  return why_closed_;
}

bool InFlightTable::WaitUntilEmpty(TimePoint until) {
  const MutexLock lock(mutex_);
  while (first_ != nullptr) {
    if (until == kNoDeadline) {
      empty_.Wait(mutex_);
    } else if (Now() >= until) {
      return false;
    } else {
      empty_.WaitUntil(mutex_, until);
    }
  }
  return true;
}

void InFlightTable::CancelAll(Dispatcher& dispatcher) {
  // seq_cst: either Post() sees this flag, or the loop below sees the job id that Post() stored.
  cancelling_.store(true);
  std::vector<std::pair<ServedModel*, JobId>> jobs;
  {
    const MutexLock lock(mutex_);
    for (RequestInFlight* request = first_; request != nullptr; request = request->next_) {
      const std::uint64_t job = request->job_.load();
      if (job != 0) jobs.emplace_back(ProgramOf(*request), JobId{job});
    }
  }
  // Without the mutex, because a job may finish inside Cancel(), which takes the mutex in Remove().
  for (const auto& [program, job] : jobs) CancelJob(program, job, dispatcher);
}

// Null: the request's model is no program. A model may be unloaded as soon as the request is
// answered; a program stays.
ServedModel* InFlightTable::ProgramOf(const RequestInFlight& request) {
  return request.model().is_program() ? &request.model() : nullptr;
}

void InFlightTable::CancelJob(ServedModel* program, JobId job, Dispatcher& dispatcher) {
  if (program != nullptr) return program->Cancel(job, dispatcher);
  dispatcher.Cancel(job);
}

void InFlightTable::Cancel(RequestHandle awaited, Dispatcher& dispatcher) {
  ServedModel* program = nullptr;
  std::uint64_t job = 0;
  {
    const MutexLock lock(mutex_);
    RequestInFlight* request = first_;
    while (request != nullptr && request->awaited_ != awaited) request = request->next_;
    if (request == nullptr) return;
    // seq_cst: either Post() sees this flag, or this thread sees the job id that Post() stored.
    request->cancel_.store(true);
    job = request->job_.load();
    program = ProgramOf(*request);
  }
  if (job != 0) CancelJob(program, JobId{job}, dispatcher);
}

RequestInFlight::RequestInFlight(InferRequest request, InferCallback callback, ModelLease model,
                                 RequestBinding binding, RequestPadding padding,
                                 Admission admission, InFlightTable& table,
                                 PlanMaker& maker) noexcept
    : lease_(std::move(model)),
      model_(*lease_->model),
      request_(std::move(request)),
      callback_(std::move(callback)),
      admission_(admission),
      binding_(std::move(binding)),
      padding_(std::move(padding)),
      rows_(static_cast<std::size_t>(model_.RowsOf(binding_.dims))),
      table_(table),
      maker_(maker) {
  response_.id = std::move(request_.id);
}

RequestInFlight::~RequestInFlight() {
  Refuse({ErrorCode::kResourceExhausted, "out of memory"});
  Leave();
}

void RequestInFlight::Leave() {
  if (std::exchange(listed_, false)) table_.Remove(*this);
}

/// The answer's tensor for an output of the model; null if the client does not ask for it.
OutputTensor* RequestInFlight::ResultTensor(std::size_t output) {
  const Signature& signature = model_.signature();
  for (std::size_t i = 0; i < binding_.outputs.size(); ++i) {
    if (signature.output_index[binding_.outputs[i]] == output) return &response_.outputs[i];
  }
  return nullptr;
}

/// The memory of the answer for an output of the model; null if there is none.
std::byte* RequestInFlight::MemoryOfResult(std::size_t output, const TensorSpec& spec) {
  OutputTensor* const tensor = ResultTensor(output);
  // An output that was not asked for stays null in outputs_, and costs neither memory nor a copy.
  if (tensor == nullptr) return nullptr;
  tensor->name = spec.name;
  tensor->type = spec.type;
  tensor->dims = spec.dims;
  tensor->data.resize(spec.bytes());  // not filled: the output is copied as a whole
  return tensor->data.data();
}

/// Whether a run of the plan copies the output: into the answer, for the next part, or because it
/// says the dims of another output.
bool RequestInFlight::Copies(const ServedPlan& plan, std::size_t output) const {
  const PartLinks& links = plan.links;
  if (output >= links.results.size()) return true;
  const auto asked = [&](std::size_t wanted) {
    return model_.signature().output_index[wanted] == links.results[output];
  };
  const auto is_this = [&](const PartSource& s) { return !s.from_input && s.index == output; };
  return std::ranges::any_of(binding_.outputs, asked) ||
         (links.next && std::ranges::any_of(links.next->sources, is_this));
}

Status RequestInFlight::TakeRoom(std::size_t bytes) {
  if (request_.room == nullptr || bytes == 0) return {};
  Status taken = request_.room->Take(bytes);
  if (!taken) return Annotate(fmt::format("model '{}'", model_.name()), std::move(taken).error());
  return {};
}

Status RequestInFlight::TakeRoomFor(const ServedPlan& plan) {
  const std::vector<PlanTensor>& outputs = plan.loaded->plan.outputs;
  std::size_t bytes = room_;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (Copies(plan, i)) bytes += outputs[i].spec.bytes();
  }
  return TakeRoom(bytes);
}

Status RequestInFlight::BindTensors() {
  LAGOON_RETURN_IF_ERROR(TakeRoomFor(*plan_));
  const PartLinks& links = plan_->links;
  inputs_.clear();
  for (const std::size_t input : plan_->inputs) {
    inputs_.push_back(binding_.inputs[input].data());
  }
  response_.outputs.resize(binding_.outputs.size());
  outputs_.assign(plan().outputs.size(), nullptr);
  run_.outputs.assign(plan().outputs.size(), {});
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!Copies(*plan_, i)) continue;
    const TensorSpec& spec = plan().outputs[i].spec;
    std::byte* memory = i < links.results.size() ? MemoryOfResult(links.results[i], spec) : nullptr;
    if (spec.bytes() == 0) continue;  // there is nothing to copy
    if (memory == nullptr) {
      between_.push_back(std::make_unique_for_overwrite<std::byte[]>(spec.bytes()));
      memory = between_.back().get();
    }
    outputs_[i] = memory;
    run_.outputs[i] = {memory, spec.bytes()};
    room_ += spec.bytes();
  }
  return {};
}

/// Where the plan does not know the dims: gives the answer's tensor its actual dims.
Status RequestInFlight::TakeResult(std::size_t output) {
  const PartLinks& links = plan_->links;
  const bool made = plan().outputs[output].made.has_value();
  OutputTensor* const result = ResultTensor(links.results[output]);
  if (result == nullptr || (!made && !links.sizes[output])) return {};
  LAGOON_ASSIGN_OR_RETURN(const HostTensor tensor, PartOutput(links, plan(), run_, output));
  result->dims = tensor.dims;
  if (made) {
    room_ += tensor.bytes.size();
    LAGOON_RETURN_IF_ERROR(TakeRoom(room_));
    result->data.assign(tensor.bytes.begin(), tensor.bytes.end());
  } else {
    result->data.resize(tensor.bytes.size());
  }
  return {};
}

Status RequestInFlight::TakeOutputs() {
  const PartLinks& links = plan_->links;
  for (std::size_t i = 0; i < links.results.size(); ++i) LAGOON_RETURN_IF_ERROR(TakeResult(i));
  if (!links.next) return {};
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < binding_.inputs.size(); ++i) {
    inputs.push_back({binding_.dims[i], binding_.inputs[i]});
  }
  LAGOON_ASSIGN_OR_RETURN(const std::vector<HostTensor> next,
                          InputsOfNextPart(links, plan(), inputs, run_));
  binding_.dims.clear();
  binding_.inputs.clear();
  for (const HostTensor& input : next) {
    binding_.dims.push_back(input.dims);
    binding_.inputs.push_back(input.bytes);
  }
  return {};
}

/// Removes what padding has added to the outputs.
void RequestInFlight::CutOutputs() {
  if (model_.buckets().empty()) return;
  const Signature& signature = model_.signature();
  for (std::size_t i = 0; i < binding_.outputs.size(); ++i) {
    model_.buckets().Cut(padding_, signature.output_index[binding_.outputs[i]],
                         response_.outputs[i]);
  }
}

RequestHandle RequestInFlight::Post(const std::shared_ptr<RequestInFlight>& self,
                                    std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher) {
  if (!self->table_.Add(*self)) {
    self->Refuse({ErrorCode::kUnavailable, self->table_.why_closed()});
    return RequestHandle{};
  }
  return self->PostJob(self, std::move(plan), dispatcher);
}

bool RequestInFlight::Await(RequestHandle handle) {
  awaited_since_ = Now();
  if (awaited_ != RequestHandle{}) return true;
  awaited_ = handle;  // before others see the request in the table
  if (table_.Add(*this)) return true;
  awaited_ = {};
  Refuse({ErrorCode::kUnavailable, table_.why_closed()});
  return false;
}

void RequestInFlight::PostAwaited(const std::shared_ptr<RequestInFlight>& self,
                                  std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher) {
  const Nanoseconds wait = Now() - self->awaited_since_;
  self->response_.plan_wait += wait;
  if (self->first_part_) self->response_.plan_wait_between += wait;
  self->PostJob(self, std::move(plan), dispatcher);
}

void RequestInFlight::PostPart(const std::shared_ptr<RequestInFlight>& self,
                               std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher) {
  self->PostJob(self, std::move(plan), dispatcher);
}

void RequestInFlight::RefuseAwaited(Error error) {
  Refuse(std::move(error));
  Leave();
}

RequestHandle RequestInFlight::PostJob(const std::shared_ptr<RequestInFlight>& self,
                                       std::shared_ptr<ServedPlan> plan, Dispatcher& dispatcher) {
  static_assert(std::is_same_v<std::underlying_type_t<RequestHandle>, decltype(Raw(JobId{}))>);
  plan_ = std::move(plan);
  Result<JobId> job = WithoutExceptions([&] { return BindAndPost(self, dispatcher); });
  if (!job) {
    self_.reset();
    RefuseAwaited(std::move(job).error());
    return RequestHandle{};
  }
  // The job may have finished already, and the next part may have been posted: ids only grow.
  std::uint64_t known = job_.load();
  while (known < Raw(*job) && !job_.compare_exchange_weak(known, Raw(*job))) {
  }
  if (table_.cancelling() || cancel_.load()) model_.Cancel(*job, dispatcher);
  return RequestHandle{Raw(*job)};
}

Result<JobId> RequestInFlight::BindAndPost(const std::shared_ptr<RequestInFlight>& self,
                                           Dispatcher& dispatcher) {
  LAGOON_RETURN_IF_ERROR(BindTensors());
  JobSpec spec;
  spec.deadline = admission_.deadline;
  spec.inputs = inputs_;
  spec.outputs = outputs_;
  spec.client = this;
  spec.continues = plan_->links.next.has_value();
  spec.continued = first_part_.has_value();
  self_ = self;
  Result<JobId> job = model_.Post(spec, *plan_, request_.priority, dispatcher);
  if (!job) job.error().message.insert(0, fmt::format("model '{}': ", model_.name()));
  return job;
}

void RequestInFlight::BindInBatch(std::shared_ptr<ServedPlan> plan, JobParts& parts) {
  plan_ = std::move(plan);
  const std::int64_t rows = model_.RowsOf(binding_.dims);
  for (std::size_t i = 0; i < plan_->inputs.size(); ++i) {
    const std::span<const std::byte> bytes = binding_.inputs[plan_->inputs[i]];
    // A part is of both directions; a job only reads the parts of its inputs.
    parts.inputs[i].push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  response_.outputs.resize(binding_.outputs.size());
  for (std::size_t i = 0; i < plan_->links.results.size(); ++i) {
    TensorSpec spec = this->plan().outputs[i].spec;
    spec.dims.front() = rows;
    parts.outputs[i].push_back({MemoryOfResult(plan_->links.results[i], spec), spec.bytes()});
  }
}

void RequestInFlight::FinishedInBatch(const JobResult& result,
                                      const StatisticsRecorder::Batch& batch) {
  in_batch_ = batch;
  Finished(result);
}

void RequestInFlight::Answer(Result<InferResponse> result) {
  InferCallback callback;
  callback.swap(callback_);
  request_.payload.reset();
  try {
    callback(std::move(result));
  } catch (const std::exception& error) {
    spdlog::error("model '{}': the answer to a request is lost: {}", model_.name(), error.what());
  }
}

void RequestInFlight::Refuse(Error error) {
  if (callback_ == nullptr) return;  // answered
  model_.recorder().RecordRefused(error.code, Now() - admission_.arrival);
  Answer(tl::unexpected<Error>(std::move(error)));
}

void RequestInFlight::Finished(const JobResult& job) {
  // Keeps this object alive until the end of the function.
  const std::shared_ptr<RequestInFlight> self = std::move(self_);
  Status ended = WithoutExceptions([&] { return End(job, self); });
  if (!ended) RefuseAwaited(std::move(ended).error());
}

/// Answers the request, or goes on with its next part. After an error neither has happened.
Status RequestInFlight::End(const JobResult& job, const std::shared_ptr<RequestInFlight>& self) {
  JobResult result = job;
  // An engine made other shapes than the plan has. The next plan expects that.
  if (result.outcome == Outcome::kFailed && awaited_ != RequestHandle{} && Outdated(plan())) {
    if (!first_part_) first_part_ = result;
    maker_.Continue(self);
    return {};
  }
  if (result.outcome == Outcome::kCancelled && table_.lost()) result.outcome = Outcome::kFailed;
  if (result.outcome == Outcome::kDone) {
    run_.made = std::move(result.made);
    made_between_.insert(made_between_.end(), run_.made.begin(), run_.made.end());
    LAGOON_RETURN_IF_ERROR(TakeOutputs());
    if (plan_->links.next) {
      if (!first_part_) first_part_ = result;
      before_ = std::move(plan_);
      maker_.Continue(self);
      return {};
    }
    CutOutputs();
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

void RequestInFlight::Record(const JobResult& result) {
  model_.recorder().RecordFinished(result,
                                   {admission_.arrival, admission_.deadline, rows_, in_batch_});
}

/// Waiting for the device counts as neither the host's time nor the device's.
void RequestInFlight::RecordLoad(const JobResult& result) {
  LoadRecorder& load = model_.load();
  load.Answered(result.finished - admission_.arrival, result.finished);
  const auto rows = static_cast<std::int64_t>(rows_);
  const StatisticsRecorder::Batch batch = in_batch_.value_or(StatisticsRecorder::Batch{rows, true});
  if (!batch.counts) return;
  const TimePoint copied = std::min(result.inputs_copied, result.computed);
  const Nanoseconds before = admission_.admitted - admission_.arrival + (copied - result.started);
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
      return {ErrorCode::kUnavailable,
              fmt::format("model '{}': superseded by a newer request", model)};
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

}  // namespace lagoon
