// A run from its start to its end.

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"
#include "local/run.h"
#include "local/run_guard.h"

namespace lagoon {
namespace {

/// A call of Done on this thread. Within it there may be calls for other runs, or for the same one.
struct DoneCall {
  const Run* run;
  std::uint64_t start;  // Run::starts_ of what has ended
  const DoneCall* around;
};
thread_local const DoneCall* innermost_done = nullptr;

constexpr RunRefusal kNotOver = {
    RunCode::kInvalidArgument,
    "this run is under way: wait for its end, or make another run of the model"};
constexpr RunRefusal kStartedAgain = {
    RunCode::kInvalidArgument,
    "this run was started again within its callback, and that start is not over yet, its callback "
    "included"};
constexpr RunRefusal kInOtherDone = {
    RunCode::kInvalidArgument,
    "the last start of this run is not over yet, its callback included, and the callback of "
    "another run cannot wait for that"};

}  // namespace

bool Run::AnyInDone() { return innermost_done != nullptr; }
bool Run::in_done() const {
  const DoneCall* call = innermost_done;
  while (call != nullptr && call->run != this) call = call->around;
  return call != nullptr;
}

bool Run::quiet() const {
  return !under_way() && calling_.load(std::memory_order_acquire) == 0 && slot_->done();
}

Run::~Run() {
  if (!model_.device().usable()) {
    (void)slot_.release();  // its job may have been under way when the process was forked
    return;
  }
  Cancel();
  Wait(kNoDeadline);
}

/// Nothing: the thread is not within Done of this run. Else whether that Done may start it again:
/// not, if it did so, and another thread ends that run now.
std::optional<bool> Run::MayChangeWithinDone() const {
  std::uint32_t calls = 0;
  bool last = false;
  for (const DoneCall* call = innermost_done; call != nullptr; call = call->around) {
    if (call->run != this) continue;
    ++calls;
    last = last || call->start == starts_.load(std::memory_order_relaxed);
  }
  if (calls == 0) return std::nullopt;
  return last || (calling_.load(std::memory_order_acquire) == calls && slot_->done());
}

const RunRefusal* Run::AwaitQuiet() {
  if (!model_.device().usable()) return nullptr;  // each call says so itself
  if (under_way()) return &kNotOver;
  if (const std::optional<bool> may = MayChangeWithinDone()) return *may ? nullptr : &kStartedAgain;
  if (quiet()) return nullptr;
  if (AnyInDone()) return &kInOtherDone;
  Wait(kNoDeadline);
  return nullptr;
}

/// Before the caller changes something.
Status Run::BecomeQuiet() {
  const RunRefusal* const refusal = AwaitQuiet();
  if (refusal != nullptr) return tl::unexpected<Error>(Invalid(refusal->why));
  return {};
}

// ---- The start

/// How the thread of the caller waits.
CallerOptions Run::Caller() const {
  CallerOptions options;
  options.works = job_class_ == JobClass::kRealTime;
  options.spin = model_.device().options().spin;
  return options;
}

Status Run::Begin(std::optional<TimePoint> due) {
  const TimePoint called = model_.device().device().Now();
  LAGOON_RETURN_IF_ERROR(BecomeQuiet());
  cancelled_.store(false);
  error_.reset();
  running_ = {};
  running_.called = called;
  if (due) {
    running_.due = *due;
  } else if (const Nanoseconds deadline = model_.deadline();
             deadline > Nanoseconds(0) && deadline < kNoDeadline - called) {
    running_.due = called + deadline;
  }
  if (!Prepared()) {
    LAGOON_RETURN_IF_ERROR(FindPlan());
    running_.compiling = first_.compiling;
  }
  LAGOON_RETURN_IF_ERROR(CheckOutputs());
  ForgetOutputs();
  part_ = first_;
  before_ = nullptr;
  inputs_.reset();
  made_.clear();
  memory_used_ = 0;
  return BindPart();
}

RunCode Run::Sync(std::optional<TimePoint> due, const std::atomic<bool>* cancelled) {
  if (AnyInDone()) return Refuse(Invalid("Sync() within the callback of a run"));
  const RunCode begun = Guarded([&] { return Begin(due); });
  if (begun != RunCode::kOk) return begun;
  if (cancelled != nullptr && cancelled->load()) cancelled_.store(true);
  done_ = nullptr;
  state_.store(kUnderWay, std::memory_order_release);
  model_.device().CountStart();
  const Status ended = WithoutExceptions([&]() -> Status {
    while (true) {
      if (!slot_->Run(running_.due, Caller())) {
        return tl::unexpected<Error>(model_.device().dispatcher().FullError(part_.queue));
      }
      if (EndPart(slot_->result()) == Next::kEnded) return {};
      LAGOON_RETURN_IF_ERROR(FindNextPart());
    }
  });
  if (!ended) EndBy(nullptr, ended.error());
  Tell();
  return result_.code;
}

RunCode Run::Start(std::optional<TimePoint> due, Done done, void* argument) {
  const RunCode begun = Guarded([&] { return Begin(due); });
  if (begun != RunCode::kOk) return begun;
  done_ = done;
  argument_ = argument;
  starts_.fetch_add(1, std::memory_order_relaxed);
  state_.store(kUnderWay, std::memory_order_release);
  model_.device().CountStart();
  // Behind this call the run may be over, and started anew.
  if (slot_->Start(running_.due, this)) return RunCode::kOk;
  Error full = model_.device().dispatcher().FullError(part_.queue);
  const RunCode code = CodeOf(full.code);
  End(code, nullptr, std::move(full));
  done_ = nullptr;
  starts_.fetch_sub(1, std::memory_order_relaxed);
  Tell();
  return code;
}

void Run::Cancel() {
  // seq_cst: either the thread that posts sees the flag, or this one sees the job's id.
  cancelled_.store(true);
  if (!model_.device().usable()) return;
  const Status cancelled = WithoutExceptions([&]() -> Status {
    slot_->Cancel();
    return {};
  });
  if (!cancelled) spdlog::warn("a run is not cancelled: {}", cancelled.error().message);
}

RunCode Run::Wait(TimePoint until) {
  if (!model_.device().usable()) return Refuse(LocalDevice::ForkedError());
  if (AnyInDone()) return Refuse(Invalid("Wait() within the callback of a run"));
  const auto late = [&] { return until != kNoDeadline && Now() >= until; };
  while (true) {
    // With one part the run is over when its job is.
    const bool one_part = one_part_.load(std::memory_order_relaxed);
    if (one_part && !slot_->Wait(until, Caller())) return RunCode::kDeadlineExceeded;
    std::uint32_t state = state_.load(std::memory_order_acquire);
    if ((state & kUnderWay) != 0) {
      if (late()) return RunCode::kDeadlineExceeded;
      if ((state & kSleeps) == 0 && !state_.compare_exchange_weak(state, state | kSleeps)) continue;
      WaitOnWord(state_, kUnderWay | kSleeps, until);
      continue;
    }
    if (const std::uint32_t calling = calling_.load(std::memory_order_acquire); calling != 0) {
      if (late()) return RunCode::kDeadlineExceeded;
      WaitOnWord(calling_, calling, until);
      continue;
    }
    if (!slot_->done()) {
      if (!slot_->Wait(until, Caller())) return RunCode::kDeadlineExceeded;
      continue;
    }
    return result_.code;
  }
}

// ---- The parts

/// Of a run of Start().
void Run::Finished(const JobResult& result) {
  bool handed_over = false;
  Status ended = WithoutExceptions([&]() -> Status {
    if (EndPart(result) == Next::kEnded) return {};
    model_.device().Later([this] { GoOn(); });
    handed_over = true;
    return {};
  });
  if (handed_over) return;  // the run may be gone
  if (!ended) EndBy(nullptr, std::move(ended).error());
  Tell();
}

/// On the thread for later parts.
void Run::GoOn() {
  slot_->Wait(kNoDeadline, {.works = false});  // until the part before is all over
  Status posted = WithoutExceptions([&]() -> Status {
    LAGOON_RETURN_IF_ERROR(FindNextPart());
    if (slot_->Start(running_.due, this)) return {};
    return tl::unexpected<Error>(model_.device().dispatcher().FullError(part_.queue));
  });
  if (posted) return;
  EndBy(nullptr, std::move(posted).error());
  Tell();
}

/// Takes what a job has computed.
Run::Next Run::EndPart(const JobResult& job) {
  if (running_.parts++ == 0) {
    running_.posted = job.posted;
    running_.started = job.started;
    running_.first_block = job.first_block;
    running_.inputs_copied = job.inputs_copied;
  }
  running_.revocations += job.revocations;
  running_.resumed_blocks += job.resumed_blocks;
  running_.stolen += job.stolen;
  running_.behind.jobs += job.behind.jobs;
  if (job.behind.longest > running_.behind.longest) {
    running_.behind.longest = job.behind.longest;
    running_.behind.queue = job.behind.queue;
  }
  // An engine made other shapes than the plan has: the next plan expects that.
  if (job.outcome == Outcome::kFailed && Outdated(part_.on->plan())) {
    if (!inputs_) first_ = {};
    return Next::kAnotherPart;
  }
  if (job.outcome != Outcome::kDone) {
    std::optional<Error> error;
    if (job.error != nullptr) error = *job.error;
    End(CodeOf(job), &job, std::move(error));
    return Next::kEnded;
  }
  if (Status taken = TakeOutputs(job); !taken) {
    EndBy(&job, std::move(taken).error());
    return Next::kEnded;
  }
  if (part_.plan->links.next) return Next::kAnotherPart;
  End(RunCode::kOk, &job);
  return Next::kEnded;
}

Status Run::TakeOutputs(const JobResult& job) {
  const PartLinks& links = part_.plan->links;
  const Plan& plan = part_.on->plan();
  part_run_.made = job.made;
  made_.insert(made_.end(), job.made.begin(), job.made.end());
  for (std::size_t i = 0; i < links.results.size(); ++i) {
    Output& output = outputs_[links.results[i]];
    const TensorSpec& spec = plan.outputs[i].spec;
    output.present = true;
    if (plan.outputs[i].made || links.sizes[i]) {
      LAGOON_ASSIGN_OR_RETURN(const HostTensor tensor, PartOutput(links, plan, part_run_, i));
      output.dims = tensor.dims;
      output.at = tensor.bytes.data();
      output.size = tensor.bytes.size();
      output.type = spec.type;
      continue;
    }
    if (!output.known) output.dims = spec.dims;
    output.type = spec.type;
    output.at = part_run_.outputs[i].data();
    output.size = part_run_.outputs[i].size();
  }
  if (!links.next) return {};
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; !inputs_ && i < contents_.size(); ++i) {
    inputs.push_back({dims_[i], contents_[i]});
  }
  LAGOON_ASSIGN_OR_RETURN(inputs_,
                          InputsOfNextPart(links, plan, inputs_ ? *inputs_ : inputs, part_run_));
  before_ = part_.plan;
  return {};
}

/// Finds or makes the plan of the part that comes next.
Status Run::FindNextPart() {
  if (!inputs_) {  // the first part again
    LAGOON_RETURN_IF_ERROR(FindPlan());
    part_ = first_;
  } else {
    std::vector<Dims> dims;
    std::vector<std::span<const std::byte>> contents;
    for (const HostTensor& input : *inputs_) {
      dims.push_back(input.dims);
      contents.push_back(input.bytes);
    }
    LAGOON_ASSIGN_OR_RETURN(part_, model_.PlanFor(before_, dims, contents, job_class_));
  }
  running_.compiling += part_.compiling;
  return BindPart();
}

// ---- The end

/// Makes the result. `job`: the last one; null: the run ends without a job.
void Run::EndBy(const JobResult* job, Error error) {
  const RunCode code = CodeOf(error.code);
  End(code, job, std::move(error));
}

void Run::End(RunCode code, const JobResult* job, std::optional<Error> error) {
  const TimePoint finished = job != nullptr ? job->finished : model_.device().device().Now();
  if (running_.parts == 0) {
    running_.posted = running_.started = running_.first_block = finished;
    running_.inputs_copied = finished;
  }
  running_.code = code;
  running_.computed = job != nullptr ? job->computed : finished;
  running_.finished = finished;
  running_.why = Why(running_);
  result_ = running_;
  error_ = std::move(error);
  if (error_ && !error_->message.starts_with("model '")) {
    error_->message.insert(0, fmt::format("model '{}': ", model_.name()));
  }
  if (code != RunCode::kOk) ForgetOutputs();
  const bool late = running_.why != WhyLate::kNot;
  model_.Count({code, late, running_.first_block - running_.called, finished - running_.first_block,
                running_.revocations});
}

/// The run is over. Behind this call it may be gone, unless the calling thread has the run.
void Run::Tell() {
  model_.device().CountEnd();
  const Done done = done_;
  void* const argument = argument_;
  const DoneCall call{this, starts_.load(std::memory_order_relaxed), innermost_done};
  if (done != nullptr) calling_.fetch_add(1, std::memory_order_relaxed);
  const std::atomic<std::uint32_t>* const state = &state_;
  if ((state_.exchange(0, std::memory_order_acq_rel) & kSleeps) != 0) WakeWord(state);
  if (done == nullptr) return;
  innermost_done = &call;
  try {
    done(argument, *this);
  } catch (const std::exception& thrown) {
    spdlog::error("model '{}': the callback of a run has thrown: {}", model_.name(), thrown.what());
  } catch (...) {
    spdlog::error("model '{}': the callback of a run has thrown", model_.name());
  }
  innermost_done = call.around;
  const std::atomic<std::uint32_t>* const calling = &calling_;
  calling_.fetch_sub(1, std::memory_order_acq_rel);
  WakeWord(calling);
}

WhyLate Run::Why(const RunResult& result) const {
  const bool late = result.finished > result.due || result.code == RunCode::kDeadlineExceeded ||
                    result.code == RunCode::kTooLate;
  if (result.due == kNoDeadline || !late) return WhyLate::kNot;
  if (result.called > result.due) return WhyLate::kCaller;
  const Nanoseconds ran = result.computed - result.first_block;
  // Alone on the device it would have taken the expected time.
  const Nanoseconds expected = part_.on == nullptr ? ran : part_.on->costs().total();
  const Nanoseconds revoking =
      result.revocations > 0 ? std::max(ran - expected, Nanoseconds(0)) : Nanoseconds(0);
  const Nanoseconds queued = result.started - result.posted;
  // Workers may lose their cores at the same time.
  const Nanoseconds stolen =
      std::min(result.stolen, std::max(ran - revoking - expected, Nanoseconds(0)));
  const Nanoseconds computing = ran - revoking - stolen;
  const Nanoseconds host =
      result.finished - result.called - result.compiling - queued - revoking - computing;
  const std::pair<Nanoseconds, WhyLate> all[] = {{queued, WhyLate::kQueued},
                                                 {computing, WhyLate::kComputing},
                                                 {revoking, WhyLate::kRevoking},
                                                 {result.compiling, WhyLate::kCompiling},
                                                 {host, WhyLate::kHost}};
  return std::ranges::max_element(all, {}, [](const auto& one) { return one.first; })->second;
}

/// What the run waited for, and for whom.
std::string Run::Reason() const {
  std::string reason(Name(result_.why));
  const RanBefore& behind = result_.behind;
  if (behind.jobs > 0) {
    reason += fmt::format("; runs that had the device meanwhile: {}, the longest of '{}'",
                          behind.jobs, behind.queue.data());
  }
  if (result_.stolen > Nanoseconds(0)) {
    reason +=
        fmt::format("; the system took cores away for {:.3f} ms", ToMilliseconds(result_.stolen));
  }
  return reason;
}

std::string Run::message() const {
  if (error_) return error_->message;
  const auto of_model = [&](const std::string& what) {
    return fmt::format("model '{}': {}", model_.name(), what);
  };
  switch (result_.code) {
    case RunCode::kDeadlineExceeded:
      if (result_.why == WhyLate::kCaller) {
        return of_model(fmt::format("the run was started {:.3f} ms behind its due time",
                                    ToMilliseconds(result_.called - result_.due)));
      }
      return of_model(fmt::format(
          "the run did not end by its due time, {:.3f} ms after its start; most of that time: {}",
          ToMilliseconds(result_.due - result_.called), Reason()));
    case RunCode::kTooLate:
      return of_model("the run would miss its due time behind the runs that go before it");
    case RunCode::kCancelled:
      return of_model("the run was cancelled");
    case RunCode::kSuperseded:
      return of_model("a newer run took the place of this one (newest_wins)");
    case RunCode::kUnavailable:
      return of_model("the device was lost");
    default:
      return std::string(Name(result_.code));
  }
}

}  // namespace lagoon
