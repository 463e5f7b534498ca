#include "serving/request/python_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "plan/bytes_tensor.h"
#include "serving/core/parameters.h"
#include "serving/python/tensors.h"

namespace lagoon {
namespace {

/// Added to the levels of requests that have lowered their class.
constexpr std::uint32_t kLoweredLevels = kMaxPriorityLevels + 1;

/// Nothing is known of the times of a program.
std::optional<Nanoseconds> NoTime(const BatchMember& /*member*/, std::int64_t /*rows*/) {
  return Nanoseconds(0);
}

bool FitsDeclared(const Dims& dims, const Dims& declared, std::int64_t rows, bool batched) {
  if (dims.size() != declared.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t wanted = batched && i == 0 ? rows : declared[i];
    if (wanted != -1 && wanted != dims[i]) return false;
  }
  return true;
}

tl::unexpected<Error> WrongOutput(const std::string& what) {
  return Fail(ErrorCode::kInternal, what);
}

}  // namespace

/// A request that a program has.
class PythonQueue::Job final : public PythonJob {
 public:
  /// `rows`: of the whole batch. `counts`: this request counts the execution.
  Job(PythonQueue& queue, BatchMember member, StatisticsRecorder::Batch batch)
      : queue_(queue),
        batch_(batch),
        request_id_(member.flight->id()),
        request_(member.flight->KeepRequest()),
        flight_(std::exchange(member.flight, nullptr)),
        member_(std::move(member)) {}

  std::uint64_t id() const override { return static_cast<std::uint64_t>(member_.handle); }
  TimePoint deadline() const override { return member_.deadline; }
  bool lowered() const override { return member_.level >= kLoweredLevels; }
  bool answered() const override {
    const MutexLock lock(mutex_);
    return answered_;
  }
  nlohmann::json Describe(std::vector<std::span<const std::byte>>& parts) override;
  void Begun(TimePoint taken, TimePoint sent) override {
    const MutexLock lock(mutex_);
    taken_ = taken;
    sent_ = sent;
  }
  Status Answer(const ProgramMessage& message) override;
  Status Give(const ProgramMessage& message, std::function<void()> taken) override;
  void End() override { Finish(Outcome::kDone, nullptr, {}); }
  void Fail(Error error) override {
    error.message.insert(0, fmt::format("model '{}': ", queue_.model_.name()));
    FailWith(std::move(error));
  }
  void Refuse(Error error) override {
    if (answered()) return;
    // For these codes a front asks another member, which would run the request once more.
    const bool fronted = !request_->asked.via.empty();
    const bool again = error.code == ErrorCode::kNotFound || error.code == ErrorCode::kCancelled ||
                       error.code == ErrorCode::kUnavailable;
    if (fronted && again) error.code = ErrorCode::kInternal;
    FailWith(std::move(error));
  }
  void Expire() override { Finish(Outcome::kExpired, nullptr, {}); }
  void Forget() override {
    request_.reset();
    std::shared_ptr<Flight> flight;  // ends without the lock
    const MutexLock lock(mutex_);
    flight_.swap(flight);
  }
  /// Any thread. What the program gets or gives may be in use: the request stays until Forget().
  void Cancel() { Finish(Outcome::kCancelled, nullptr, {}, /*keeps=*/true); }

 private:
  void FailWith(Error error) {
    if (answered()) return;
    Finish(Outcome::kFailed, std::make_shared<const Error>(std::move(error)), {});
  }
  Result<Flight::Made> Read(const ProgramMessage& message) const;
  Status Check(const ProgramTensor& tensor, std::size_t output) const;
  void Finish(Outcome outcome, std::shared_ptr<const Error> error, Flight::Made made,
              bool keeps = false);

  PythonQueue& queue_;
  const StatisticsRecorder::Batch batch_;
  const std::string request_id_;
  std::shared_ptr<const Request> request_;  // of the instance's thread; null: was answered
  mutable Mutex mutex_;
  std::shared_ptr<Flight> flight_ GUARDED_BY(mutex_);  // null: forgotten
  const BatchMember member_;                           // without its flight
  bool answered_ GUARDED_BY(mutex_) = false;
  TimePoint taken_ GUARDED_BY(mutex_) = Now();
  TimePoint sent_ GUARDED_BY(mutex_) = taken_;
};

nlohmann::json PythonQueue::Job::Describe(std::vector<std::span<const std::byte>>& parts) {
  const Signature& signature = queue_.model_.signature();
  const RequestBinding& binding = request_->binding;
  nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array();
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    const TensorSpec& spec = signature.inputs[i];
    // The bytes as the client has sent them: strings too have the protocol's form.
    const auto given = std::ranges::find(request_->asked.inputs, spec.name, &InputTensor::name);
    if (given == request_->asked.inputs.end()) continue;
    inputs.push_back(TensorObject(spec.name, spec.type, binding.dims[i], given->data.size()));
    parts.push_back(given->data);
  }
  for (const std::size_t output : binding.outputs) {
    outputs.push_back(signature.outputs[output].name);
  }
  const auto timeout_us = std::chrono::duration_cast<std::chrono::microseconds>(
      std::max(request_->asked.timeout, Nanoseconds(0)));
  const SequencePart& sequence = request_->asked.sequence;
  return {{"id", id()},
          {"request_id", request_id_},
          {"priority", request_->asked.priority},
          {"timeout_us", timeout_us.count()},
          {"sequence",
           sequence.text.empty() ? nlohmann::json(sequence.number) : nlohmann::json(sequence.text)},
          {"flags", (sequence.start ? 1 : 0) | (sequence.end ? 2 : 0)},
          {"parameters", ParametersObject(request_->asked.parameters)},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)}};
}

/// Whether the program's tensor is as the model declares that output.
Status PythonQueue::Job::Check(const ProgramTensor& tensor, std::size_t output) const {
  const Signature& signature = queue_.model_.signature();
  const TensorSpec& spec = signature.outputs[output];
  const std::optional<Reshape>& reshape = signature.output_reshape[output];
  const Dims& declared = reshape ? reshape->model : spec.dims;
  const bool batched = signature.max_batch > 0;
  if (tensor.type == spec.type && FitsDeclared(tensor.dims, declared, request_->rows, batched)) {
    return {};
  }
  return WrongOutput(fmt::format(
      "the program's output {} is {} {}, config.pbtxt has {} {}{}", Quoted(spec.name),
      OipName(tensor.type), ToString(tensor.dims), OipName(spec.type), ToString(declared),
      batched ? fmt::format(" and the request {} row(s)", request_->rows) : ""));
}

/// What the client asked for of an answer: outputs that the program leaves out are not there.
Result<Flight::Made> PythonQueue::Job::Read(const ProgramMessage& message) const {
  static const nlohmann::json kNone = nlohmann::json::array();
  const auto list = message.object.find("outputs");
  LAGOON_ASSIGN_OR_RETURN(
      const std::vector<ProgramTensor> tensors,
      ReadTensors(list == message.object.end() ? kNone : *list, message.bytes()));
  const std::vector<TensorSpec>& declared = queue_.model_.signature().outputs;
  for (const ProgramTensor& tensor : tensors) {
    if (std::ranges::find(declared, tensor.name, &TensorSpec::name) != declared.end()) continue;
    return WrongOutput(fmt::format("the program gives an output {}, config.pbtxt has {}",
                                   Quoted(tensor.name), QuotedNames(declared)));
  }
  std::vector<const ProgramTensor*> wanted;
  std::size_t bytes = 0;
  for (const std::size_t output : request_->binding.outputs) {
    const auto found = std::ranges::find(tensors, declared[output].name, &ProgramTensor::name);
    if (found == tensors.end()) continue;
    LAGOON_RETURN_IF_ERROR(Check(*found, output));
    wanted.push_back(&*found);
    bytes += found->bytes;
  }
  if (request_->asked.room != nullptr) {
    LAGOON_RETURN_IF_ERROR(request_->asked.room->Take(bytes));
  }
  Flight::Made made;
  for (const ProgramTensor* const tensor : wanted) {
    OutputTensor& output = made.outputs.emplace_back();
    output.name = tensor->name;
    output.type = tensor->type;
    output.dims = tensor->dims;
    output.data.resize(tensor->bytes);
    LAGOON_RETURN_IF_ERROR(message.Read(tensor->offset, {output.data.data(), output.data.size()}));
    if (tensor->type != DataType::kString) continue;
    Status checked = CheckBytesElements({output.data.data(), output.data.size()},
                                        static_cast<std::size_t>(ElementCount(tensor->dims)));
    if (!checked) {
      return Annotate(fmt::format("the program's output {}", Quoted(tensor->name)),
                      {ErrorCode::kInternal, std::move(checked).error().message});
    }
  }
  if (const auto set = message.object.find("parameters"); set != message.object.end()) {
    auto parameters = ReadAnswerParameters(*set);
    if (!parameters) return WrongOutput(parameters.error().message);
    made.parameters = *std::move(parameters);
  }
  return made;
}

Status PythonQueue::Job::Answer(const ProgramMessage& message) {
  if (answered()) return {};
  LAGOON_ASSIGN_OR_RETURN(Flight::Made made, Read(message));
  Finish(Outcome::kDone, nullptr, std::move(made));
  return {};
}

Status PythonQueue::Job::Give(const ProgramMessage& message, std::function<void()> taken) {
  if (answered()) return {};
  const auto error = message.object.find("error");
  Flight::Made made;
  if (error == message.object.end()) {
    LAGOON_ASSIGN_OR_RETURN(made, Read(message));
  }
  const MutexLock lock(mutex_);  // no answer comes behind the end
  if (answered_) return {};
  Result<InferResponse> answer = flight_->AnswerWith(std::move(made));
  if (error != message.object.end()) answer = tl::unexpected<Error>(ReadError(*error));
  request_->asked.stream->Give(std::move(answer), std::move(taken));
  return {};
}

/// The first call ends the request.
void PythonQueue::Job::Finish(Outcome outcome, std::shared_ptr<const Error> error,
                              Flight::Made made, bool keeps) {
  JobResult result = WithoutJob(outcome, member_.came);
  TimePoint taken;
  std::shared_ptr<Flight> flight;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(answered_, true)) return;
    flight = flight_;
    taken = taken_;
    result.started = result.first_block = taken_;
    result.inputs_copied = sent_;
  }
  result.error = std::move(error);
  if (!keeps) request_.reset();  // the client's memory is free before the answer
  {
    const MutexLock lock(queue_.mutex_);
    queue_.running_.erase(flight.get());
  }
  flight->FinishedOutside(result, std::move(made), taken, batch_);
}

PythonQueue::PythonQueue(ServedModel& model)
    : model_(model),
      queue_(model.settings().batching,
             model.settings().batching.enabled ? model.signature().max_batch : 1) {
  for (const auto& program : model_.programs()) program->Serve(*this);
}

PythonQueue::~PythonQueue() {
  for (const auto& program : model_.programs()) program->Stop();
  const MutexLock lock(mutex_);
  LAGOON_CHECK(queue_.size() == 0);
}

void PythonQueue::WakePrograms() {
  for (const auto& program : model_.programs()) program->Wake();
}

BatchMember PythonQueue::MemberOf(const std::shared_ptr<Flight>& flight) const {
  const BatchingSettings& batching = model_.settings().batching;
  const Request& request = flight->request();
  BatchMember member{flight->handle(), flight, request.rows};
  for (const Dims& dims : request.binding.dims) {
    const bool batched = model_.signature().max_batch > 0;
    member.shape += ToString(batched ? Dims(dims.begin() + 1, dims.end()) : dims);
  }
  member.came = Now();
  member.deadline = request.deadline;
  const std::uint32_t level = batching.LevelOf(request.asked.priority);
  const bool lowered = model_.ClassOf(request.asked.priority) != model_.settings().job_class;
  member.level = lowered ? level + kLoweredLevels : level;
  const WaitPolicy& policy = batching.PolicyOf(level);
  const bool has_own = policy.own_timeout && member.deadline != kNoDeadline;
  if (policy.timeout > Nanoseconds(0) && !has_own) member.leaves = member.came + policy.timeout;
  const Nanoseconds most = model_.MaxWait(request.asked.priority);
  if (most > Nanoseconds(0)) member.gives_up = member.came + most;
  return member;
}

void PythonQueue::Add(const std::shared_ptr<Flight>& flight) {
  const ModelSettings& settings = model_.settings();
  flight->WaitIn(*this);
  BatchMember member = MemberOf(flight);
  std::optional<BatchMember> superseded;
  bool full = false;
  std::size_t waiting = 0;
  {
    const MutexLock lock(mutex_);
    waiting = queue_.OfLevel(member.level);
    full = waiting >= settings.MostWaiting(member.level % kLoweredLevels);
    if (full && settings.overflow == Overflow::kNewestWins) {
      superseded =
          queue_.TakeFirst([&](const BatchMember& other) { return other.level == member.level; });
      full = !superseded.has_value();
    }
    if (!full) queue_.Add(std::move(member));
  }
  if (superseded) {
    superseded->flight->Finished(WithoutJob(Outcome::kSuperseded, superseded->came));
  }
  if (full) {
    return flight->Refuse(
        {ErrorCode::kUnavailable, fmt::format("model '{}': the queue is full: {} requests wait for "
                                              "its Python program",
                                              model_.name(), waiting)});
  }
  flight->HeedCancel();
  WakePrograms();
}

void PythonQueue::Cancel(Flight& flight) {
  std::optional<BatchMember> waiting;
  std::shared_ptr<Job> running;
  {
    const MutexLock lock(mutex_);
    waiting =
        queue_.TakeFirst([&](const BatchMember& member) { return member.flight.get() == &flight; });
    const auto found = running_.find(&flight);
    if (found != running_.end()) running = found->second;
  }
  if (waiting) flight.Finished(WithoutJob(Outcome::kCancelled, waiting->came));
  if (running == nullptr) return;
  running->Cancel();
  WakePrograms();  // the program hears of it
}

std::size_t PythonQueue::Waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

std::vector<std::shared_ptr<PythonJob>> PythonQueue::Take(bool wants, TimePoint& next) {
  std::vector<std::shared_ptr<PythonJob>> jobs;
  BatchQueue::Expired expired;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = Now();
    expired = queue_.TakeExpired(now, NoTime);
    std::vector<BatchMember> members;
    if (wants) members = queue_.TakeBatch(now, NoTime).batch;  // drops nobody without times
    StatisticsRecorder::Batch batch{0, true};
    for (const BatchMember& member : members) batch.rows += member.rows;
    for (BatchMember& member : members) {
      const Flight* const flight = member.flight.get();
      const auto job = std::make_shared<Job>(*this, std::move(member), batch);
      batch.counts = false;
      running_[flight] = job;
      jobs.push_back(job);
    }
    next = queue_.NextTime(wants, NoTime);
  }
  Answer(expired);
  return jobs;
}

void PythonQueue::Answer(const BatchQueue::Expired& expired) {
  for (const BatchMember& member : expired.deadline) {
    member.flight->Finished(WithoutJob(Outcome::kExpired, member.came));
  }
  for (const BatchMember& member : expired.given_up) {
    member.flight->Finished(WithoutJob(Outcome::kNotStarted, member.came));
  }
  for (const BatchMember& member : expired.queue_timeout) {
    member.flight->Refuse(
        {ErrorCode::kUnavailable,
         fmt::format("model '{}': waited for its Python program for longer than its queue allows "
                     "(default_timeout_microseconds)",
                     model_.name())});
  }
}

}  // namespace lagoon
