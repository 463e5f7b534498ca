#include "sched/mechanism.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

const LoadedPlan* FirstPlan(const Instance* instance) {
  return instance->first() == nullptr ? nullptr : &instance->first()->loaded();
}

std::size_t ClassOf(const Job& job) { return static_cast<std::size_t>(job.job_class); }

// No kernel and no copy, as in a plan whose outputs are constants without elements. Such a job
// needs no instance, and no launch would report its end.
bool HasNothingToRun(const Job& job) {
  const Plan& plan = job.instance != nullptr ? job.instance->plan() : job.plan->plan();
  return plan.ops.empty() && job.inputs.empty() &&
         std::ranges::all_of(job.outputs, [](const void* output) { return output == nullptr; });
}

// Whether the policy may start a waiting job: the first of its queue, and after that one all that
// follow it as long as they bring an instance of their own. Those are operations of job programs,
// of which the policy chooses the one whose request is next (Paella 6).
bool IsOffered(const Job& job) {
  const auto at = job.queue->waiting.iterator_to(job);
  if (at == job.queue->waiting.begin()) return true;
  const Job& before = *std::prev(at);
  return job.plan == nullptr && before.plan == nullptr && before.ready_hook.is_linked();
}

}  // namespace

Mechanism::Mechanism(Device& device, const SchedulerConfig& config, Policy& policy,
                     QueueTable& queues)
    : device_(device),
      config_(config),
      policy_(&policy),
      queues_(queues),
      streams_(device),
      launches_(device.info().max_launches + device.info().max_background_launches),
      padding_(device, ready_, jobs_, active_) {
  Result<GuardId> guard = device_.CreateGuard();
  LAGOON_CHECK(guard.has_value());  // an idle device always has one
  group_guard_ = *guard;
  LAGOON_CHECK(Use(config, policy).has_value());  // an idle device always has a stream
}

Status Mechanism::Use(const SchedulerConfig& config, Policy& policy) {
  LAGOON_CHECK(idle());
  LAGOON_RETURN_IF_ERROR(streams_.Use(config.streams, queues_));
  config_ = config;
  policy_ = &policy;
  minimum_ = BestEffortMinimum(config.best_effort_minimum);
  held_until_ = kNoDeadline;
  ready_ = ReadyIndex(policy.orders());
  for (std::uint32_t i = 0; i < Raw(queues_.next_id()); ++i) ready_.AddQueue(QueueId{i});
  if (observer_ != nullptr) observer_->OnSwitch(config_, device_.Now());
  return {};
}

Mechanism::~Mechanism() {
  LAGOON_CHECK(jobs_.empty() && held_.empty());
  Hurry(false);
}

Result<QueueId> Mechanism::AddQueue(QueueOptions options) {
  if (options.instances.empty() || options.max_pending == 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("queue '{}': needs at least one instance and room for one job, has {} and {}",
                    options.name, options.instances.size(), options.max_pending));
  }
  const LoadedPlan* const first = FirstPlan(options.instances.front());
  if (std::ranges::any_of(options.instances,
                          [&](const Instance* other) { return FirstPlan(other) != first; })) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': its {} instances were not all created with the same plan",
                            options.name, options.instances.size()));
  }
  if (!(options.weight > 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': a weight is above 0, this one is {}", options.name,
                            options.weight));
  }
  // An observer knows queues by their numbers, so that the numbers of its queues are not reused.
  JobQueue* const place = observer_ == nullptr ? queues_.FindRemoved() : nullptr;
  std::unique_ptr<JobQueue> added;
  if (place == nullptr) {
    if (queues_.full()) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("queue '{}': there {} {} queues{}", options.name,
                              observer_ == nullptr ? "are" : "were", QueueTable::kMaxQueues,
                              observer_ == nullptr ? " already"
                                                   : " since the trace began, which cannot name "
                                                     "more: serve without a trace"));
    }
    added = std::make_unique<JobQueue>(queues_.next_id());
  }
  JobQueue& queue = place != nullptr ? *place : *added;
  LAGOON_RETURN_IF_ERROR(PrepareQueue(queue, options));
  queue.Use(std::move(options));
  if (queue.options.job_class == JobClass::kRealTime) ++real_time_queues_;
  ready_.AddQueue(queue.id);
  if (observer_ != nullptr) observer_->OnQueue(queue.id, queue.options);
  if (queue.first != nullptr) TellPlan(*queue.first);
  return place != nullptr ? place->id : queues_.Add(std::move(added));
}

/// Gets from the device what the queue needs and does not have yet.
Status Mechanism::PrepareQueue(JobQueue& queue, const QueueOptions& options) {
  const std::string where = fmt::format("queue '{}'", options.name);
  const UnitRange all{0, device_.info().units};
  if (queue.share != kAllUnits) {
    const UnitRange wanted = options.units.count == 0 ? all : options.units;
    Status moved = device_.PrepareUnits(wanted);
    if (moved) moved = device_.MoveShare(queue.share, wanted);
    if (!moved) return Annotate(where, std::move(moved).error());
  } else if (options.units.count > 0) {
    Result<ShareId> created = device_.CreateShare(options.name, options.units);
    if (!created) return Annotate(where, std::move(created).error());
    queue.share = *created;
  }
  while (queue.slots.size() < options.instances.size()) {
    LAGOON_ASSIGN_OR_RETURN(const GuardId guard, device_.CreateGuard());
    LAGOON_ASSIGN_OR_RETURN(const GuardId leaving_guard, device_.CreateGuard());
    queue.slots.push_back({.guard = guard, .leaving_guard = leaving_guard});
  }
  LAGOON_RETURN_IF_ERROR(streams_.AddQueue(queue, options.name));
  queue.free_slots.clear();
  for (std::size_t i = 0; i < options.instances.size(); ++i) {
    queue.slots[i].instance = options.instances[i];
    queue.free_slots.push_back(i);
  }
  return {};
}

Status Mechanism::RemoveQueue(QueueId id) {
  JobQueue* const queue = queues_.Find(id);
  if (queue == nullptr || queue->removed) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(id)));
  }
  if (!queue->Idle()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}' cannot be removed: jobs of the queue are left",
                            queue->options.name));
  }
  queue->removed = true;
  recent_.Forget(id);
  if (queue->options.job_class == JobClass::kRealTime) --real_time_queues_;
  queue->first.reset();
  for (JobQueue::Slot& slot : queue->slots) slot.instance = nullptr;
  return {};
}

void Mechanism::UseShare(JobQueue& queue, ShareId share, UnitRange units) {
  const std::uint32_t all = device_.info().units;
  const UnitRange before = RangeOf(queue, all);
  queue.share = share;
  queue.options.units = units;
  const UnitRange now = RangeOf(queue, all);
  if (before.first < now.first || before.end() > now.end()) Vacate(queue);
}

// Work that pads and the spared block have bounds of their own, and leave soon.
void Mechanism::Vacate(const JobQueue& queue) {
  for (Job& job : active_) {
    const bool runs = job.queue == &queue && job.state == Job::State::kActive &&
                      job.next_op > job.first_incomplete;
    if (!runs || padding_.Has(job) || spared_.job == &job) continue;
    stats_.share_evictions += job.next_op - job.first_incomplete;
    Revoke(job);
  }
}

void Mechanism::Admit(Job& job, FinishedJobs& finished) {
  // seq_cst: whoever sets the flag and then cancels comes before this look, or finds the job.
  if (job.cancelled != nullptr && job.cancelled->load()) {
    return Refuse(job, Outcome::kCancelled, finished);
  }
  job.beside = RunsBeside(job);
  const std::uint32_t units = device_.info().units;
  job.costs->UseUnits(UnitsOf(*job.queue, units), units);
  job.weight = job.queue->options.weight;
  job.total = job.remaining = job.unsubmitted = job.costs->total();
  const Plan& plan = job.instance != nullptr ? job.instance->plan() : job.plan->plan();
  job.has_cut_ops = !plan.cut_ops.empty();
  if (config_.admit_by_deadline && WouldBeLate(job)) {
    return Refuse(job, Outcome::kTooLate, finished);
  }
  job.total += job.ahead;
  job.remaining += job.ahead;
  job.unsubmitted += job.ahead;
  if (job.tenant > 0) ready_.AddTenant(job.tenant);
  jobs_.insert(job);
  if (observer_ != nullptr) TellJob(SchedEvent::Kind::kArrived, job, job.arrival);
  SetLateFrom(job);
  if (job.leaves != kNoDeadline) leaves_.insert(job);
  if (job.continued) EndHold(job);
  JobQueue& queue = *job.queue;
  SetNextOp(job, 0);
  policy_->OnArrival(job);
  queue.waiting.push_back(job);
  if (lost_) return Finish(job, Outcome::kFailed, finished);
  if (HasNothingToRun(job)) {
    return Finish(job, job.leaves <= device_.Now() ? job.OutcomeOfLeaving() : Outcome::kDone,
                  finished);
  }
  if (queue.options.overflow == Overflow::kNewestWins &&
      queue.waiting.size() > queue.options.max_pending) {
    SupersedeOldest(queue, finished);
  }
  OfferNextWaiting(queue);
}

// Behind the jobs that go before it and what the device has. Without a profile a job takes no time.
bool Mechanism::WouldBeLate(Job& job) const {
  if (job.deadline == kNoDeadline) return false;
  const bool revokes = config_.preemption != SchedulerConfig::Preemption::kNone &&
                       job.job_class == JobClass::kRealTime;
  const Job* superseded = job.queue->GivesWay();
  Nanoseconds ahead{0};
  for (const Job& other : jobs_) {
    if (other.state == Job::State::kLeaving || &other == superseded) continue;
    if (SideBySide(other, job)) continue;
    if (policy_->Precedes(other, job)) {
      ahead += std::max(Nanoseconds(0), other.remaining - other.ahead);
    } else if (!revokes || other.job_class == JobClass::kRealTime) {
      ahead += std::max(Nanoseconds(0), other.remaining - other.unsubmitted);
    }
  }
  const TimePoint end = device_.Now() + ahead + job.total;
  job.result.expected = end - job.arrival;
  return end > job.deadline;
}

// Whether both jobs run at the same time, each on the units of its own share.
bool Mechanism::SideBySide(const Job& a, const Job& b) const {
  const std::uint32_t all = device_.info().units;
  const UnitRange of_a = RangeOf(*a.queue, all), of_b = RangeOf(*b.queue, all);
  if (of_a.first < of_b.end() && of_b.first < of_a.end()) return false;
  const bool one_by_one = config_.streams == SchedulerConfig::Streams::kOne ||
                          config_.max_active_jobs > 0 || config_.max_kernels > 0 ||
                          config_.extra_blocks || config_.one_part;
  if (one_by_one) return false;
  if (a.job_class != b.job_class) return config_.preemption == SchedulerConfig::Preemption::kNone;
  return a.job_class == JobClass::kRealTime ? config_.max_real_time_jobs == 0
                                            : !config_.preempt_by_rank;
}

void Mechanism::Refuse(Job& job, Outcome outcome, FinishedJobs& finished) {
  if (observer_ != nullptr) TellJob(SchedEvent::Kind::kArrived, job, job.arrival);
  job.queue->pending.fetch_sub(1, std::memory_order_relaxed);
  End(job, outcome, finished);
}

bool Mechanism::SupersedeOldest(JobQueue& queue, FinishedJobs& finished) {
  if (queue.waiting.empty()) return false;
  Finish(queue.waiting.front(), Outcome::kSuperseded, finished);
  return true;
}

void Mechanism::Cancel(JobId id, FinishedJobs& finished) {
  const auto job = jobs_.find(id);
  if (job != jobs_.end()) Leave(*job, Outcome::kCancelled, finished);
}

void Mechanism::CancelAll(FinishedJobs& finished) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    Leave(*job++, Outcome::kCancelled, finished);  // Leave() may remove the job from the set
  }
}

bool Mechanism::Step(FinishedJobs& finished) {
  if (!std::exchange(polled_, false)) PollEvents(finished);
  LeaveExpired(finished);
  if (lost_) return false;
  // The round stops here: submitting takes some microseconds, for which the answer does not wait.
  if (HasRealTime(finished)) return polled_ = true;
  MindHold();
  MindMinimum();
  if (RealTimeMode()) RevokeBestEffort();
  PickAndSubmit();
  if (observer_ != nullptr) TellDepths();
  polled_ = PollEvents(finished) > 0;
  return polled_;
}

bool HasRealTime(const FinishedJobs& finished) {
  return std::ranges::any_of(
      finished, [](const Job& job) { return job.queue->options.job_class == JobClass::kRealTime; });
}

TimePoint Mechanism::NextLeaving() const {
  const TimePoint leaves = leaves_.empty() ? kNoDeadline : leaves_.begin()->leaves;
  return std::min(leaves, TurnEnds());
}

// ---- Between two jobs of a real-time request

bool Mechanism::Continues(const Job& job) const {
  return job.continues && job.job_class == JobClass::kRealTime &&
         config_.preemption != SchedulerConfig::Preemption::kNone;
}

void Mechanism::BeginHold(JobQueue& queue) {
  const TimePoint now = device_.Now();
  queue.part_done = now;
  if (queue.gap.hold() == Nanoseconds(0)) return;
  ++stats_.holds;
  const TimePoint until = now + queue.gap.hold();
  held_until_ = held_until_ == kNoDeadline ? until : std::max(held_until_, until);
}

// The job has come that others waited for.
void Mechanism::EndHold(const Job& job) {
  const TimePoint done = std::exchange(job.queue->part_done, TimePoint{});
  if (done == TimePoint{}) return;
  job.queue->gap.Observe(device_.Now() - done);
  held_until_ = kNoDeadline;
}

void Mechanism::MindHold() {
  if (held_until_ == kNoDeadline || device_.Now() < held_until_) return;
  held_until_ = kNoDeadline;
  ++stats_.holds_in_vain;
}

// ---- Life of a job

void Mechanism::Start(Job& job) {
  JobQueue& queue = *job.queue;
  SetReady(job, false);
  queue.waiting.erase(queue.waiting.iterator_to(job));
  queue.pending.fetch_sub(1, std::memory_order_relaxed);
  job.slot = queue.free_slots.back();
  queue.free_slots.pop_back();
  if (job.instance == nullptr) {
    job.instance = queue.slots[job.slot].instance;
    job.instance->Select(job.plan->binding(job.slot));
  }
  job.instance->Reset();  // all launches of the former job have retired
  job.started = true;
  job.state = Job::State::kActive;
  if (job.leaves != job.deadline) {  // it has not waited too long
    leaves_.erase(leaves_.iterator_to(job));
    job.leaves = job.deadline;
    if (job.leaves != kNoDeadline) leaves_.insert(job);
  }
  if (job.job_class == JobClass::kBestEffort) CatchUp(queue);
  job.stream = streams_.Next(queue);
  job.result.started = device_.Now();
  for (std::size_t i = 0; i < job.inputs.size(); ++i) job.inputs_left += job.Keeps(i) ? 0 : 1;
  job.outputs_left = static_cast<std::uint32_t>(
      job.outputs.size() - std::ranges::count(job.outputs, static_cast<void*>(nullptr)));
  if (job.outputs_left == 0) job.next_output = job.outputs.size();  // ends with the last kernel
  if (!job.instance->plan().ops.empty()) BeginsComputing(job);
  if (job.job_class == JobClass::kRealTime && computing_[ClassOf(job)] > 1) RevokePadding();
  if (Continues(job)) ++continuing_;
  active_.push_back(job);
  TellAlmostFinished(job);
  UpdateReady(job);
  OfferNextWaiting(queue);
}

void Mechanism::BeginsComputing(const Job& job) {
  ++computing_[ClassOf(job)];
  if (job.beside) ++beside_computing_;
}

void Mechanism::EndsComputing(const Job& job) {
  --computing_[ClassOf(job)];
  if (job.beside) --beside_computing_;
}

void Mechanism::TellAlmostFinished(Job& job) const {
  const bool almost = job.first_incomplete + 1 >= job.instance->plan().ops.size();
  if (!almost || job.told_almost || job.continues || job.state != Job::State::kActive) return;
  job.told_almost = true;
  job.client->AlmostFinished();
}

void Mechanism::Advance(Job& job, TimePoint at) {
  const std::size_t ops = job.instance->plan().ops.size();
  if (job.first_incomplete == ops) return;
  while (job.first_incomplete < ops && job.instance->progress(job.first_incomplete).Complete()) {
    const Nanoseconds took = job.costs->kernel(job.first_incomplete);
    job.remaining = std::max(Nanoseconds(0), job.remaining - took);
    job.queue->served += took;
    CountServed(job, job.instance->progress(job.first_incomplete).blocks());
    job.counted = 0;
    job.op_since = at;
    if (job.tenant > 0) ++tenant_kernels_[job.tenant - 1];
    ++job.first_incomplete;
  }
  if (job.next_op < job.first_incomplete) SetNextOp(job, job.first_incomplete);
  if (job.first_incomplete == ops) {
    job.remaining = Nanoseconds(0);  // the costs may have changed since the job came
    job.result.computed = at;
    if (job.state == Job::State::kActive) EndsComputing(job);
  }
  TellAlmostFinished(job);
  UpdateReady(job);
}

void Mechanism::Leave(Job& job, Outcome outcome, FinishedJobs& finished) {
  if (job.state == Job::State::kWaiting) return Finish(job, outcome, finished);
  if (job.state != Job::State::kActive) return;
  if (job.first_incomplete < job.instance->plan().ops.size()) EndsComputing(job);
  job.state = Job::State::kLeaving;
  job.result.outcome = outcome;
  if (job.leaves_hook.is_linked()) leaves_.erase(leaves_.iterator_to(job));
  UpdateReady(job);
  // The kernels that its room waits for, or that end it, may never be complete.
  if (job.job_class == JobClass::kRealTime) RevokePadding();
  if (job.launches == 0) return Finish(job, outcome, finished);
  if (job.background) {
    job.hurries = true;
    ++hurrying_;
    TellHurry();
  }
  JobQueue::Slot& slot = job.queue->slots[job.slot];
  device_.Raise(slot.guard, ++slot.revision);
  // The kernels that read the inputs are revoked already.
  if (job.inputs_left > 0) device_.Raise(slot.leaving_guard, ++slot.left);
}

void Mechanism::Hurry(bool hurry) {
  others_hurry_ = hurry;
  TellHurry();
}

void Mechanism::TellHurry() {
  const bool hurry = others_hurry_ || hurrying_ > 0 || minimum_.in_slice();
  if (std::exchange(device_hurries_, hurry) != hurry) device_.HurryBackground(hurry);
}

void Mechanism::Finish(Job& job, Outcome outcome, FinishedJobs& finished) {
  if (job.hurries) {
    --hurrying_;
    TellHurry();
  }
  JobQueue& queue = *job.queue;
  SetReady(job, false);
  policy_->OnFinished(job);
  if (job.state == Job::State::kWaiting) {
    queue.waiting.erase(queue.waiting.iterator_to(job));
    queue.pending.fetch_sub(1, std::memory_order_relaxed);
  } else {
    active_.erase(active_.iterator_to(job));
    if (Continues(job)) --continuing_;
    if (Continues(job) && outcome == Outcome::kDone) BeginHold(queue);
    if (!lost_) queue.free_slots.push_back(job.slot);
    recent_.Add({queue.id, job.job_class, job.result.started, device_.Now()});
  }
  jobs_.erase(jobs_.iterator_to(job));
  if (job.leaves_hook.is_linked()) leaves_.erase(leaves_.iterator_to(job));
  EndOrHold(job, outcome, finished);
  if (!lost_) OfferNextWaiting(queue);
}

// Only answers are held: who gave up, or failed, learns that at once.
void Mechanism::EndOrHold(Job& job, Outcome outcome, FinishedJobs& finished) {
  if (policy_->HoldsAnswers() && !lost_) {
    if (outcome != Outcome::kDone) return End(job, outcome, finished);
    job.state = Job::State::kFinished;
    held_.push_back(job);
    return;
  }
  while (!held_.empty()) {
    Job& held = held_.front();
    held_.pop_front();
    End(held, Outcome::kDone, finished);
  }
  End(job, outcome, finished);
}

void Mechanism::End(Job& job, Outcome outcome, FinishedJobs& finished) {
  job.state = Job::State::kFinished;
  job.result.outcome = outcome;
  job.result.job = job.id;
  job.result.finished = device_.Now();
  job.result.background = job.background;
  for (TimePoint* stamp : {&job.result.started, &job.result.first_block, &job.result.inputs_copied,
                           &job.result.computed}) {
    if (*stamp == TimePoint{}) *stamp = job.result.finished;
  }
  CountBehind(job);
  if (observer_ != nullptr) {
    TellJob(SchedEvent::Kind::kFinished, job, job.result.finished,
            static_cast<std::uint32_t>(outcome));
  }
  finished.push_back(job);
}

// Only what happened during the job's life is looked at: nothing, if it met no other.
void Mechanism::CountBehind(Job& job) const {
  const JobResult& result = job.result;
  const RecentJobs::Waited waited = {
      .self = {job.queue->id, job.job_class, result.started, result.finished},
      .arrived = job.arrival,
      .any_class = config_.preemption == SchedulerConfig::Preemption::kNone};
  const auto name_of = [&](QueueId queue) -> std::string_view {
    return queues_.Find(queue)->options.name;
  };
  recent_.CountAll(waited, name_of, job.result.behind);
  for (const Job& other : active_) {
    if (other.result.started >= result.finished) continue;
    RecentJobs::Count(waited,
                      {other.queue->id, other.job_class, other.result.started, result.finished},
                      name_of, job.result.behind);
  }
}

void Mechanism::LeaveExpired(FinishedJobs& finished) {
  if (leaves_.empty()) return;
  const TimePoint now = device_.Now();
  while (!leaves_.empty() && leaves_.begin()->leaves <= now) {
    Job& job = *leaves_.begin();
    if (job.leaves < std::min(job.deadline, job.waits_until) && !AnotherIsInTime(job, now)) {
      leaves_.erase(leaves_.iterator_to(job));  // nothing is won by giving it up: it may be faster
      job.leaves = std::min(job.deadline, job.waits_until);
      leaves_.insert(job);
      continue;
    }
    Leave(job, job.OutcomeOfLeaving(), finished);
  }
}

// In overload the job that waits longest has next to nothing left until its deadline. Begun, it
// would be computed in vain, and so would all that follow it.
void Mechanism::SetLateFrom(Job& job) const {
  if (job.deadline == kNoDeadline || job.instance != nullptr) return;
  job.late_from = job.deadline - job.costs->total() * 5 / 4;  // some runs take longer than the mean
  job.leaves = std::min(job.leaves, job.late_from);
}

bool Mechanism::AnotherIsInTime(const Job& job, TimePoint now) {
  return std::ranges::any_of(job.queue->waiting, [&](const Job& other) {
    return &other != &job && now < other.late_from;
  });
}

// Treats the ops before `op` as submitted or complete. UpdateReady() must follow.
void Mechanism::SetNextOp(Job& job, std::size_t op) {
  for (; job.next_op < op; ++job.next_op) job.unsubmitted -= job.costs->kernel(job.next_op);
  for (; job.next_op > op; --job.next_op) job.unsubmitted += job.costs->kernel(job.next_op - 1);
  const Plan& plan = job.instance != nullptr ? job.instance->plan() : job.plan->plan();
  if (op == plan.ops.size()) job.unsubmitted = job.ahead;
  job.unsubmitted = std::max(Nanoseconds(0), job.unsubmitted);
  const auto end = std::ranges::upper_bound(plan.part_ends, op);
  job.part_ops = end == plan.part_ends.end() ? ~0u : *end - static_cast<std::uint32_t>(op);
}

void Mechanism::UpdateReady(Job& job) {
  const auto ready = [&] {
    if (job.state == Job::State::kWaiting) {
      return !job.queue->free_slots.empty() && IsOffered(job);
    }
    if (job.state != Job::State::kActive) return false;
    const bool waits_for_itself = job.launches_wait && job.next_op < job.revoked_until;
    if (job.launches > 0 && job.background != InBackground(job) && !waits_for_itself) {
      return false;  // until they retire
    }
    if (job.next_input < job.inputs.size()) return true;
    if (job.interrupted.any) return false;
    const std::vector<PlanOp>& all = job.instance->plan().ops;
    const std::size_t ops = all.size();
    if (job.next_op == ops) return job.next_output < job.outputs.size() && OutputsMayGo(job);
    // What was revoked may turn out to be interrupted.
    if (all[job.next_op].restart == Restart::kByGroup && job.instance->in_flight(job.next_op) > 0) {
      return false;
    }
    const std::size_t depth = SlicesKernels(job) ? 1 : config_.depth;
    return depth == 0 || job.next_op - job.first_incomplete < depth;
  };
  SetReady(job, ready());
}

void Mechanism::SetReady(Job& job, bool ready) {
  const bool was_ready = job.ready_hook.is_linked();
  ready_.Update(job, ready);
  if (job.beside && ready && !was_ready) ++beside_ready_;
  if (job.beside && !ready && was_ready) --beside_ready_;
}

void Mechanism::OfferNextWaiting(JobQueue& queue) {
  for (Job& job : queue.waiting) {
    UpdateReady(job);
    if (job.plan != nullptr) return;
  }
}

}  // namespace lagoon
