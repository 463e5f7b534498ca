#include "sched/programs/program_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/guard.h"
#include "plan/pages.h"

namespace lagoon {
namespace {

// Block time if none is known: too long for any room, so that the kernel is not used as padding.
constexpr Nanoseconds kUnknown = std::chrono::hours(1);
constexpr std::size_t kMostFill = std::size_t{1} << 40;  // so that its blocks can be counted

PlanTensor BytesAt(std::size_t bytes) {
  PlanTensor tensor;
  tensor.spec = {"bytes", DataType::kUInt8, {static_cast<std::int64_t>(bytes)}};
  tensor.range = {Region::kArena, 0, bytes};
  return tensor;
}

std::string What(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is not a std::exception";
  }
}

// Why these are not the tensors of the model; empty if they are. `keeps`: an input may be null
// where an output replaces it.
std::string WrongTensors(const std::string& role, const JobModel& model,
                         std::span<const void* const> inputs, std::size_t outputs, bool keeps) {
  if (inputs.size() != model.inputs.size() || outputs != model.outputs.size()) {
    return fmt::format("it ran model '{}', of {} inputs and {} outputs, with {} and {}", role,
                       model.inputs.size(), model.outputs.size(), inputs.size(), outputs);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool replaced = std::ranges::count(model.replaces, std::optional(i)) > 0;
    if (inputs[i] != nullptr || model.inputs[i].bytes() == 0 || (keeps && replaced)) continue;
    return fmt::format("it ran model '{}' without input '{}', {}", role, model.inputs[i].name,
                       keeps ? "which no output replaces" : "and not on an instance of its own");
  }
  return "";
}

}  // namespace

void JobOperation::Finished(const JobResult& result_in) {
  result = result_in;
  job->services_.Tell(*this);
}

ProgramRun::ProgramRun(JobServices& services, std::shared_ptr<JobProgram> program, JobId id,
                       const JobSpec& spec)
    : services_(services),
      program_(std::move(program)),
      id_(id),
      deadline_(spec.deadline),
      tenant_(spec.tenant),
      client_(spec.client),
      client_outputs_(spec.outputs.begin(), spec.outputs.end()) {
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(spec.inputs[i]);
    inputs_.emplace_back(bytes, bytes + services.options.inputs[i].bytes());
  }
  for (const TensorSpec& output : services.options.outputs) outputs_.emplace_back(output.bytes());
  result_.posted = services.device->Now();
}

// ---- What the coroutine calls

template <typename Call>
auto ProgramRun::FromProgram(Call call, decltype(call()) without) {
  if (!thread_->Return()) return without;
  auto result = call();
  thread_->GoOn();
  return result;
}

Result<std::byte*> ProgramRun::Allocate(std::size_t bytes) {
  return FromProgram(
      [&]() -> Result<std::byte*> {
        LAGOON_ASSIGN_OR_RETURN(Buffer buffer,
                                services_.device->Allocate(bytes, MemoryKind::kDevice));
        return memory_.emplace_back(std::move(buffer)).data();
      },
      Fail(ErrorCode::kCancelled, "the job was given up"));
}

JobStream ProgramRun::CreateStream(StreamKind kind) {
  const auto create = [&]() -> JobStream {
    if (waitlist_.streams() < kMaxStreams) return waitlist_.AddStream(kind);
    Refuse(fmt::format("it may have {} streams, the default one included", kMaxStreams));
    return Waitlist::kDefaultStream;
  };
  return FromProgram(create, Waitlist::kDefaultStream);
}

JobWait ProgramRun::Launch(KernelHandle kernel, std::span<const std::byte> args,
                           std::uint32_t blocks, JobStream stream) {
  const auto launch = [&]() -> JobWait {
    const KernelSpec* spec = services_.FindKernel(kernel);
    if (spec == nullptr || blocks == 0) {
      return Refuse(fmt::format("it launched {} blocks of kernel {}; {}", blocks, Raw(kernel),
                                spec == nullptr ? "its program has loaded none of that handle"
                                                : "at least one is needed"));
    }
    return IssueKernel(kernel, *spec, args, blocks, stream);
  };
  return FromProgram(launch, NoWait());
}

JobWait ProgramRun::IssueKernel(KernelHandle kernel, const KernelSpec& spec,
                                std::span<const std::byte> args, std::uint32_t blocks,
                                JobStream stream) {
  Plan plan;
  PlanOp& op = plan.ops.emplace_back();
  op.kernel = kernel;
  op.blocks = blocks;
  op.args.assign(args.begin(), args.end());
  op.occupancy = services_.device->Occupancy(kernel);
  op.need = services_.device->NeedOf(kernel);
  op.cost.block = spec.block.time > Nanoseconds(0) ? spec.block.time : kUnknown;
  auto operation = MakeCall(nullptr, std::move(plan), services_.CostsOf(kernel, blocks));
  operation->kind = ProgramEstimate::Of(kernel, blocks);
  return Issue(std::move(operation), stream);
}

JobWait ProgramRun::Fill(std::byte* to, std::uint8_t value, std::size_t bytes, JobStream stream) {
  const auto fill = [&]() -> JobWait {
    if (to == nullptr && bytes > 0) return Refuse(fmt::format("it filled {} null bytes", bytes));
    if (bytes > kMostFill) {
      return Refuse(fmt::format("it filled {} bytes, the most is {}", bytes, kMostFill));
    }
    const FillArgs args{to, bytes, value};
    return IssueKernel(services_.fill, {}, std::as_bytes(std::span(&args, 1)), CopyBlocks(bytes),
                       stream);
  };
  return FromProgram(fill, NoWait());
}

JobEvent ProgramRun::CreateEvent() {
  const auto create = [&]() -> JobEvent {
    if (waitlist_.events() < kMaxEvents) return waitlist_.AddEvent();
    Refuse(fmt::format("it may have {} events", kMaxEvents));
    return 0;
  };
  return FromProgram(create, 0);
}

// Returns false if nothing is issued any more, or if the job has failed by this call.
bool ProgramRun::MayMark(JobEvent event, JobStream stream) {
  if (failing_) return false;
  if (event >= waitlist_.events() || stream >= waitlist_.streams()) {
    Refuse(fmt::format("it used event {} on stream {}, there are {} events and {} streams", event,
                       stream, waitlist_.events(), waitlist_.streams()));
    return false;
  }
  return HasPlace() && MayIssue();
}

void ProgramRun::Record(JobEvent event, JobStream stream) {
  FromProgram(
      [&] {
        if (MayMark(event, stream)) waitlist_.Record(event, stream);
        return true;
      },
      false);
}

void ProgramRun::WaitFor(JobEvent event, JobStream stream) {
  FromProgram(
      [&] {
        if (MayMark(event, stream)) waitlist_.WaitFor(event, stream);
        return true;
      },
      false);
}

JobWait ProgramRun::CopyToDevice(std::byte* to, const void* from, std::size_t bytes,
                                 JobStream stream) {
  const auto copy = [&]() -> JobWait {
    if (from == nullptr && bytes > 0) return Refuse(fmt::format("it copied {} null bytes", bytes));
    Plan plan;
    plan.inputs.push_back(BytesAt(bytes));
    auto operation = MakeCall(to, std::move(plan), *services_.copy_costs);
    operation->inputs = {from != nullptr ? from : to};
    return Issue(std::move(operation), stream);
  };
  return FromProgram(copy, NoWait());
}

JobWait ProgramRun::CopyToHost(void* to, const std::byte* from, std::size_t bytes,
                               JobStream stream) {
  const auto copy = [&]() -> JobWait {
    Plan plan;
    plan.outputs.push_back(BytesAt(bytes));
    // Becomes the arena of a plan that only reads from the arena.
    auto operation = MakeCall(const_cast<std::byte*>(from), std::move(plan), *services_.copy_costs);
    operation->outputs = {to};
    return Issue(std::move(operation), stream);
  };
  return FromProgram(copy, NoWait());
}

JobWait ProgramRun::Run(const JobModel& model, std::span<const void* const> inputs,
                        std::span<void* const> outputs, JobStream stream) {
  const auto run = [&]() -> JobWait {
    if (model.index >= services_.models.size()) {
      return Refuse(
          fmt::format("it ran model {}; its program has {}", model.index, services_.models.size()));
    }
    const ProgramModel& hosted = services_.options.models[model.index];
    std::string wrong =
        WrongTensors(hosted.role, services_.models[model.index], inputs, outputs.size(),
                     /*keeps=*/false);
    if (!wrong.empty()) return Refuse(std::move(wrong));
    auto operation = std::make_unique<JobOperation>();
    operation->inputs.assign(inputs.begin(), inputs.end());
    operation->outputs.assign(outputs.begin(), outputs.end());
    operation->model = &hosted;
    operation->kind = ProgramEstimate::OfModel(model.index);
    operation->spec.queue = hosted.queue;
    operation->spec.plan = hosted.queue_plan;
    return Issue(std::move(operation), stream);
  };
  return FromProgram(run, NoWait());
}

bool HostedInstance::Clear(std::size_t index, std::size_t offset, std::size_t bytes) {
  const std::size_t size = hosted.loaded->plan.inputs.at(index).range.bytes;
  if (runs || offset > size || bytes > size - offset) return false;
  ReleaseToZero(input(index) + offset, bytes);
  return true;
}

JobWait ProgramRun::Run(JobInstance& instance, std::span<const void* const> inputs,
                        std::span<void* const> outputs, JobStream stream) {
  const auto run = [&]() -> JobWait {
    auto& own = static_cast<HostedInstance&>(instance);
    std::string wrong =
        WrongTensors(own.hosted.role, own.model, inputs, outputs.size(), /*keeps=*/true);
    if (!wrong.empty()) return Refuse(std::move(wrong));
    if (own.runs) {
      return Refuse(fmt::format("it ran an instance of model '{}' that runs: await the run before",
                                own.hosted.role));
    }
    auto operation = std::make_unique<JobOperation>();
    operation->inputs.assign(inputs.begin(), inputs.end());
    operation->outputs.assign(outputs.begin(), outputs.end());
    operation->hosted = &own;
    operation->model = &own.hosted;
    operation->kind = ProgramEstimate::OfModel(own.model.index);
    operation->spec.queue = own.hosted.queue;
    operation->spec.instance = own.instance.get();
    operation->spec.costs = &own.costs;
    return Issue(std::move(operation), stream);
  };
  return FromProgram(run, NoWait());
}

JobWait ProgramRun::Send() {
  const auto send = [&]() -> JobWait {
    if (!services_.options.decoupled) {
      return Refuse(
          "it sent an answer: its configuration needs model_transaction_policy { "
          "decoupled: true }");
    }
    if (untaken_ == kMaxSent) {
      return Refuse(
          fmt::format("it sent an answer while {} are not taken: await Send()", untaken_));
    }
    if (failing_ || !MayIssue()) return NoWait();
    const std::vector<std::span<const std::byte>> outputs(outputs_.begin(), outputs_.end());
    if (++untaken_ == kMaxSent) full_since_ = services_.device->Now();
    Status sent = WithoutExceptions([&]() -> Status {
      client_->Sent(outputs, services_.TakenBy(id_));
      return {};
    });
    if (!sent) {
      End(Outcome::kFailed, std::move(sent).error());
      return NoWait();
    }
    return {*this, JobWait::Kind::kRoom, 0};
  };
  return FromProgram(send, NoWait());
}

bool ProgramRun::Ready(const JobWait& wait) {
  return FromProgram([&] { return !failing_ && IsComplete(wait); }, false);
}

bool ProgramRun::IsComplete(const JobWait& wait) const {
  switch (wait.kind()) {
    case JobWait::Kind::kOperation:
      return waitlist_.IsComplete(wait.index());
    case JobWait::Kind::kStream:
      return waitlist_.IsStreamComplete(static_cast<JobStream>(wait.index()));
    case JobWait::Kind::kAll:
      return waitlist_.incomplete() == 0;
    case JobWait::Kind::kRoom:
      return untaken_ < kMaxSent;
    case JobWait::Kind::kSignal:
      return wait.signalled();
  }
  CheckFailed("a known JobWait", __FILE__, __LINE__);
}

// ---- Operations

std::unique_ptr<JobOperation> ProgramRun::MakeCall(std::byte* arena, Plan plan, CostTable& costs) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan = std::move(plan);
  auto operation = std::make_unique<JobOperation>();
  operation->instance = Instance::CreateOver(arena, std::move(loaded));
  operation->spec.queue = services_.queue;
  operation->spec.instance = operation->instance.get();
  operation->spec.costs = &costs;
  return operation;
}

JobWait ProgramRun::Issue(std::unique_ptr<JobOperation> operation, JobStream stream) {
  if (failing_) return NoWait();
  if (stream >= waitlist_.streams()) {
    return Refuse(fmt::format("it used stream {}, there are {}", stream, waitlist_.streams()));
  }
  if (!HasPlace() || !MayIssue()) return NoWait();
  if (operation->hosted != nullptr) operation->hosted->runs = true;
  const Waitlist::Op number = waitlist_.Add(stream);
  operation->job = this;
  operation->number = number;
  operation->spec.deadline = deadline_;
  operation->spec.tenant = tenant_;
  operation->spec.client = operation.get();
  JobOperation& issued = *(operations_[number] = std::move(operation));
  issued.spec.inputs = issued.inputs;
  issued.spec.outputs = issued.outputs;
  if (waitlist_.active(number)) Post(issued);
  return {*this, JobWait::Kind::kOperation, number};
}

/// Returns false, and ends the job, if as many operations are incomplete as may be.
bool ProgramRun::HasPlace() {
  if (waitlist_.incomplete() < kMaxOperations) return true;
  Refuse(
      fmt::format("{} operations are issued and not complete, which is the most: await "
                  "some of them",
                  kMaxOperations));
  return false;
}

/// Counts an operation or answer. Returns false, and ends the job, if it is one too many.
bool ProgramRun::MayIssue() {
  if (++issued_ <= services_.options.max_operations) return true;
  Refuse(fmt::format("it has issued {} operations, which is the most for a job",
                     services_.options.max_operations));
  return false;
}

JobWait ProgramRun::Refuse(std::string message) {
  End(Outcome::kFailed, Error{ErrorCode::kInternal, std::move(message)});
  return NoWait();
}

void ProgramRun::Post(JobOperation& operation) {
  operation.posted = true;
  ++posted_;
  if (operation.kind) {
    NoteTime(operation);
    counts_.Add(*operation.kind);
  }
  operation.spec.ahead = services_.estimate.Ahead(counts_);
  Result<JobId> id = services_.dispatcher->Post(operation.spec);
  if (id) {
    operation.id = *id;
    return;
  }
  --posted_;
  if (operation.hosted != nullptr) operation.hosted->runs = false;
  operations_.erase(operation.number);
  End(Outcome::kFailed, std::move(id).error());
}

void ProgramRun::NoteTime(const JobOperation& operation) {
  services_.estimate.SetTime(*operation.kind, services_.dispatcher->ExpectedTime(operation.spec));
}

void ProgramRun::OnFinished(JobOperation& operation) {
  const std::unique_ptr<JobOperation> finished =
      std::move(operations_.extract(operation.number).mapped());
  --posted_;
  if (finished->hosted != nullptr) finished->hosted->runs = false;
  const JobResult& result = finished->result;
  if (finished->kind) NoteTime(*finished);
  if (finished->model != nullptr && finished->model->ran) finished->model->ran(result);
  if (result_.first_block == TimePoint{}) result_.first_block = result.first_block;
  if (result_.inputs_copied == TimePoint{}) result_.inputs_copied = result.inputs_copied;
  result_.job = result.job;
  result_.computed = result.computed;
  result_.background = result.background;
  result_.revocations += result.revocations;
  result_.resumed_blocks += result.resumed_blocks;
  result_.repeated_kernels += result.repeated_kernels;
  if (result.outcome == Outcome::kTooLate) {
    result_.expected = result.posted + result.expected - result_.posted;
  }
  if (result.outcome != Outcome::kDone) {
    return End(result.outcome,
               result.error == nullptr ? std::nullopt : std::optional(*result.error));
  }
  std::vector<Waitlist::Op> activated;
  waitlist_.Complete(finished->number, activated);
  for (const Waitlist::Op number : activated) {
    if (failing_) return;  // an operation before could not be posted
    Post(*operations_.at(number));
  }
}

void ProgramRun::End(Outcome outcome, std::optional<Error> error) {
  if (failing_) return;
  failing_ = true;
  result_.outcome = outcome;
  if (error) result_.error = std::make_shared<const Error>(std::move(*error));
  std::erase_if(operations_, [](const auto& entry) {
    const JobOperation& operation = *entry.second;
    if (!operation.posted && operation.hosted != nullptr) operation.hosted->runs = false;
    return !operation.posted;
  });
  for (const auto& [number, operation] : operations_) services_.dispatcher->Cancel(operation->id);
}

void ProgramRun::EndUnread(Nanoseconds max_unread, bool others_wait) {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(max_unread);
  End(Outcome::kFailed,
      Error{ErrorCode::kDeadlineExceeded,
            fmt::format("the client has read none of {} answers for {} ms ({})", untaken_,
                        limit.count(), others_wait ? "others wait" : "lagoon.max_unread_ms")});
}

// ---- The coroutine

bool ProgramRun::Advance(ProgramThread& thread) {
  while (!failing_ && !returned_) {
    if (wait_ && !IsComplete(*wait_)) return true;
    if (deadline_ <= services_.device->Now()) {
      End(Outcome::kExpired);
      return true;
    }
    wait_.reset();
    thread_ = &thread;
    thread.EnterProgram(services_.device->Now());
    Resume(thread);
    if (!thread.Return()) return false;
    TakeResult();
  }
  return true;
}

void ProgramRun::Resume(ProgramThread& thread) {
  if (started_) return task_.handle().resume();
  // Run() belongs to the program and need not be a coroutine: it may throw or return an empty task.
  JobTask task;
  std::string problem;
  try {
    task = program_->Run(*this);
    if (!task.handle()) problem = "Run() returned no coroutine";
  } catch (...) {
    problem = "Run() threw: " + What(std::current_exception());
  }
  if (!thread.Return()) return;
  started_ = true;
  result_.started = services_.device->Now();
  task_ = std::move(task);
  if (!problem.empty()) Refuse(std::move(problem));
  thread.GoOn();
  if (task_.handle()) task_.handle().resume();
}

void ProgramRun::TakeResult() {
  if (!task_.handle() || !task_.handle().done()) return;
  JobTask::promise_type& promise = task_.handle().promise();
  if (promise.exception != nullptr) {
    Refuse("it threw: " + What(promise.exception));
  } else if (!promise.result) {
    End(Outcome::kFailed, promise.result.error());
  } else {
    returned_ = true;
  }
}

void ProgramRun::Answer(TimePoint now) {
  if (!failing_) {
    services_.estimate.OnEnded(counts_);
    result_.outcome = Outcome::kDone;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (client_outputs_[i] == nullptr) continue;  // not wanted
      std::memcpy(client_outputs_[i], outputs_[i].data(), outputs_[i].size());
    }
  }
  result_.finished = now;
  for (TimePoint* stamp :
       {&result_.started, &result_.first_block, &result_.inputs_copied, &result_.computed}) {
    if (*stamp == TimePoint{}) *stamp = now;
  }
  std::exchange(client_, nullptr)->Finished(result_);
}

void ProgramRun::Abandon(TimePoint now) {
  abandoned_ = true;
  End(Outcome::kFailed,
      Error{ErrorCode::kInternal,
            fmt::format(
                "it computed on the host for more than {} ms without awaiting anything",
                std::chrono::duration_cast<std::chrono::milliseconds>(services_.options.host_limit)
                    .count())});
  Answer(now);
}

}  // namespace lagoon
