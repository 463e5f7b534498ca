#include "sched/mechanism.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr int kRealTime = static_cast<int>(JobClass::kRealTime);
constexpr int kBestEffort = static_cast<int>(JobClass::kBestEffort);

}  // namespace

Mechanism::Mechanism(Device& device, const SchedulerConfig& config, Policy& policy,
                     QueueTable& queues)
    : device_(device),
      config_(config),
      policy_(policy),
      queues_(queues),
      table_(device.info().max_launches) {
  Result<GuardId> guard = device_.CreateGuard();
  LAGOON_CHECK(guard.has_value());  // an idle device always has one
  group_guard_ = *guard;
  if (config_.streams == SchedulerConfig::Streams::kOne) {
    Result<StreamId> stream = device_.CreateStream({"shared"});
    LAGOON_CHECK(stream.has_value());
    shared_stream_ = *stream;
  }
}

Mechanism::~Mechanism() { LAGOON_CHECK(jobs_.empty()); }

Result<QueueId> Mechanism::AddQueue(QueueOptions options) {
  if (options.instances.empty() || options.max_pending == 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("queue '{}': needs at least one instance and room for one job, has {} and {}",
                    options.name, options.instances.size(), options.max_pending));
  }
  if (queues_.full()) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("queue '{}': there are {} queues already", options.name,
                            QueueTable::kMaxQueues));
  }
  auto queue = std::make_unique<JobQueue>();
  for (Instance* instance : options.instances) {
    LAGOON_ASSIGN_OR_RETURN(const GuardId guard, device_.CreateGuard());
    queue->free_slots.push_back(queue->slots.size());
    queue->slots.push_back({instance, guard, 0});
  }
  if (config_.streams == SchedulerConfig::Streams::kPerQueue) {
    LAGOON_ASSIGN_OR_RETURN(queue->stream, device_.CreateStream({options.name}));
  }
  queue->options = std::move(options);
  return queues_.Add(std::move(queue));
}

void Mechanism::Admit(std::unique_ptr<Job> owned, FinishedJobs& finished) {
  Job& job = *owned.release();  // the indexes own it now, until Finish hands it out
  jobs_.insert(job);
  if (job.deadline != kNoDeadline) deadlines_.insert(job);
  JobQueue& queue = *job.queue;
  queue.waiting.push_back(job);
  if (lost_) return Finish(job, Outcome::kFailed, finished);
  if (queue.options.overflow == Overflow::kNewestWins &&
      queue.waiting.size() > queue.options.max_pending) {
    Finish(queue.waiting.front(), Outcome::kSuperseded, finished);
  }
  OfferNextWaiting(queue);
}

void Mechanism::Cancel(JobId id) { cancelled_.push_back(id); }

void Mechanism::CancelAll() {
  for (const Job& job : jobs_) cancelled_.push_back(job.id);
}

void Mechanism::Step(FinishedJobs& finished) {
  PollEvents(finished);
  do {
    LeaveCancelled(finished);
    LeaveExpired(finished);
    if (lost_) return;
    if (RealTimeMode()) RevokeBestEffort();
    PickAndSubmit();
    // What Raise and Submit retired at once is told to nobody.
  } while (PollEvents(finished) > 0);
}

TimePoint Mechanism::NextDeadline() const {
  return deadlines_.empty() ? kNoDeadline : deadlines_.begin()->deadline;
}

// ---- Device news

std::size_t Mechanism::PollEvents(FinishedJobs& finished) {
  std::array<DeviceEvent, 64> events;
  std::size_t total = 0;
  std::size_t count = events.size();
  while (count == events.size()) {
    count = device_.Poll(events);
    total += count;
    for (std::size_t i = 0; i < count && !lost_; ++i) {
      switch (events[i].kind) {
        case DeviceEvent::Kind::kPlaced:
          OnPlaced(events[i]);
          break;
        case DeviceEvent::Kind::kComplete:
          OnComplete(events[i]);
          break;
        case DeviceEvent::Kind::kRetired:
          OnRetired(events[i], finished);
          break;
        case DeviceEvent::Kind::kLost:
          OnLost(finished);
          break;
      }
    }
  }
  return total;
}

void Mechanism::OnPlaced(const DeviceEvent& event) {
  TimePoint& first = table_.Find(event.launch).job->result.first_block;
  if (first == TimePoint{}) first = event.at;
}

void Mechanism::OnComplete(const DeviceEvent& event) {
  const JobLaunch& record = table_.Find(event.launch);
  Job& job = *record.job;
  switch (record.kind) {
    case JobLaunch::Kind::kInput:
      if (--job.inputs_left == 0) job.result.inputs_copied = event.at;
      break;
    case JobLaunch::Kind::kOp:
      Advance(job, event.at);
      break;
    case JobLaunch::Kind::kOutput:
      --job.outputs_left;
      break;
  }
}

void Mechanism::OnRetired(const DeviceEvent& event, FinishedJobs& finished) {
  const JobLaunch record = table_.Find(event.launch);
  table_.Remove(event.launch);
  Job& job = *record.job;
  --job.launches;
  if (record.kind == JobLaunch::Kind::kOp) {
    --kernels_[static_cast<int>(job.job_class)];
    if (job.job_class == JobClass::kBestEffort && record.limit == group_limit_) --revocable_;
    // A block of this launch may have completed a kernel that a later launch named first.
    if (job.state == Job::State::kActive) Advance(job, event.at);
  }
  if (job.launches > 0) return;
  if (job.state == Job::State::kLeaving) {
    Finish(job, job.result.outcome, finished);
  } else if (job.next_output == job.outputs.size() && job.outputs_left == 0) {
    Finish(job, Outcome::kDone, finished);
  }
}

void Mechanism::OnLost(FinishedJobs& finished) {
  lost_ = true;
  while (!jobs_.empty()) Finish(*jobs_.begin(), Outcome::kFailed, finished);
}

// ---- Life of a job

void Mechanism::Start(Job& job) {
  JobQueue& queue = *job.queue;
  ready_.Update(job, false);
  queue.waiting.erase(queue.waiting.iterator_to(job));
  queue.pending.fetch_sub(1, std::memory_order_relaxed);
  job.slot = queue.free_slots.back();
  queue.free_slots.pop_back();
  job.instance = queue.slots[job.slot].instance;
  job.instance->Reset();  // every launch of the last job on it has retired
  job.started = true;
  job.state = Job::State::kActive;
  job.result.started = device_.Now();
  job.inputs_left = static_cast<std::uint32_t>(job.inputs.size());
  job.outputs_left = static_cast<std::uint32_t>(job.outputs.size());
  if (job.job_class == JobClass::kRealTime && !job.instance->plan().ops.empty()) {
    ++real_time_computing_;
  }
  active_.push_back(job);
  UpdateReady(job);
  OfferNextWaiting(queue);
}

void Mechanism::Advance(Job& job, TimePoint at) {
  const std::size_t ops = job.instance->plan().ops.size();
  if (job.first_incomplete == ops) return;
  while (job.first_incomplete < ops && job.instance->progress(job.first_incomplete).Complete()) {
    ++job.first_incomplete;
  }
  job.next_op = std::max(job.next_op, job.first_incomplete);
  if (job.first_incomplete == ops) {
    job.result.computed = at;
    if (job.job_class == JobClass::kRealTime && job.state == Job::State::kActive) {
      --real_time_computing_;
    }
  }
  UpdateReady(job);
}

void Mechanism::Leave(Job& job, Outcome outcome, FinishedJobs& finished) {
  if (job.state == Job::State::kWaiting) return Finish(job, outcome, finished);
  if (job.state != Job::State::kActive) return;
  if (job.job_class == JobClass::kRealTime &&
      job.first_incomplete < job.instance->plan().ops.size()) {
    --real_time_computing_;
  }
  job.state = Job::State::kLeaving;
  job.result.outcome = outcome;
  if (job.deadline_hook.is_linked()) deadlines_.erase(deadlines_.iterator_to(job));
  UpdateReady(job);
  if (job.launches == 0) return Finish(job, outcome, finished);
  JobQueue::Slot& slot = job.queue->slots[job.slot];
  device_.Raise(slot.guard, ++slot.revision);
}

void Mechanism::Finish(Job& job, Outcome outcome, FinishedJobs& finished) {
  JobQueue& queue = *job.queue;
  ready_.Update(job, false);
  if (job.state == Job::State::kWaiting) {
    queue.waiting.erase(queue.waiting.iterator_to(job));
    queue.pending.fetch_sub(1, std::memory_order_relaxed);
  } else {
    active_.erase(active_.iterator_to(job));
    if (!lost_) queue.free_slots.push_back(job.slot);
  }
  job.state = Job::State::kFinished;
  jobs_.erase(jobs_.iterator_to(job));
  if (job.deadline_hook.is_linked()) deadlines_.erase(deadlines_.iterator_to(job));

  job.result.outcome = outcome;
  job.result.finished = device_.Now();
  for (TimePoint* stamp : {&job.result.started, &job.result.first_block, &job.result.inputs_copied,
                           &job.result.computed}) {
    if (*stamp == TimePoint{}) *stamp = job.result.finished;
  }
  finished.push_back(job);
  if (!lost_) OfferNextWaiting(queue);
}

void Mechanism::LeaveCancelled(FinishedJobs& finished) {
  for (const JobId id : cancelled_) {
    const auto job = jobs_.find(id);
    if (job != jobs_.end()) Leave(*job, Outcome::kCancelled, finished);
  }
  cancelled_.clear();
}

void Mechanism::LeaveExpired(FinishedJobs& finished) {
  if (deadlines_.empty()) return;
  const TimePoint now = device_.Now();
  while (!deadlines_.empty() && deadlines_.begin()->deadline <= now) {
    Leave(*deadlines_.begin(), Outcome::kExpired, finished);
  }
}

void Mechanism::UpdateReady(Job& job) {
  const auto ready = [&] {
    if (job.state == Job::State::kWaiting) {
      return !job.queue->free_slots.empty() && &job.queue->waiting.front() == &job;
    }
    if (job.state != Job::State::kActive) return false;
    if (job.next_input < job.inputs.size()) return true;
    const std::size_t ops = job.instance->plan().ops.size();
    if (job.first_incomplete == ops) return job.next_output < job.outputs.size();
    return job.next_op < ops &&
           (config_.depth == 0 || job.next_op - job.first_incomplete < config_.depth);
  };
  ready_.Update(job, ready());
}

void Mechanism::OfferNextWaiting(JobQueue& queue) {
  if (!queue.waiting.empty()) UpdateReady(queue.waiting.front());
}

// ---- Picking and submitting

bool Mechanism::RealTimeWork() const {
  return real_time_computing_ > 0 || ready_.Any(JobClass::kRealTime);
}

bool Mechanism::RealTimeMode() const {
  return config_.preemption != SchedulerConfig::Preemption::kNone && RealTimeWork();
}

void Mechanism::RevokeBestEffort() {
  if (revocable_ == 0) return;
  device_.Raise(group_guard_, ++group_limit_);
  revocable_ = 0;
  ++stats_.revocations;
  for (Job& job : active_) {
    if (job.job_class != JobClass::kBestEffort || job.next_op == job.first_incomplete) continue;
    ++job.result.revocations;
    job.revoked_until = std::max(job.revoked_until, job.next_op);
    job.next_op = job.first_incomplete;  // forgetting what was not yet submitted is this store
    UpdateReady(job);
  }
}

void Mechanism::PickAndSubmit() {
  bool held = false;
  for (;;) {
    const bool real_time_mode = RealTimeMode();
    const bool must_wait = real_time_mode && kernels_[kBestEffort] > 0 &&
                           config_.preemption == SchedulerConfig::Preemption::kWait;
    const bool start_new = config_.max_active_jobs == 0 || active_.size() < config_.max_active_jobs;
    held = (real_time_mode && ready_.Any(JobClass::kBestEffort)) || must_wait ||
           (!start_new && !(ready_.jobs(JobClass::kRealTime, false).empty() &&
                            ready_.jobs(JobClass::kBestEffort, false).empty()));
    if (must_wait) break;
    const Decision decision =
        policy_.Pick({device_.Now(), ReadyView(ready_, !real_time_mode, start_new)});
    if (!decision.job) break;
    Job& job = *jobs_.find(*decision.job);
    LAGOON_CHECK(job.ready_hook.is_linked() && decision.ops > 0);
    if (!job.started) Start(job);
    if (!SubmitNext(job, decision.ops)) break;  // full: the next retirement steps again
  }
  device_.SetWorkHeld(held);
}

bool Mechanism::SubmitNext(Job& job, std::uint32_t ops) {
  Instance& instance = *job.instance;
  for (; job.next_input < job.inputs.size(); ++job.next_input) {
    const Copy copy = instance.InputCopy(job.next_input, job.inputs[job.next_input]);
    if (!SubmitCopy(job, copy, JobLaunch::Kind::kInput, job.next_input)) return false;
  }
  UpdateReady(job);
  while (ops > 0 && job.ready_hook.is_linked() && job.next_op < instance.plan().ops.size()) {
    if (!instance.progress(job.next_op).Complete()) {
      if (!SubmitOp(job)) return false;
      --ops;
    }
    ++job.next_op;
    UpdateReady(job);
  }
  if (job.first_incomplete < instance.plan().ops.size()) return true;
  for (; job.next_output < job.outputs.size(); ++job.next_output) {
    const Copy copy = instance.OutputCopy(job.next_output, job.outputs[job.next_output]);
    if (!SubmitCopy(job, copy, JobLaunch::Kind::kOutput, job.next_output)) return false;
  }
  UpdateReady(job);
  return true;
}

bool Mechanism::SubmitOp(Job& job) {
  if (table_.full()) return false;
  const JobQueue::Slot& slot = job.queue->slots[job.slot];
  Segment segment = job.instance->segment(job.next_op);
  const bool best_effort = job.job_class == JobClass::kBestEffort;
  if (best_effort && config_.preemption != SchedulerConfig::Preemption::kNone) {
    segment.guards[0] = {device_.GuardWord(group_guard_), group_limit_,
                         config_.preemption == SchedulerConfig::Preemption::kWait};
  }
  segment.guards[1] = {device_.GuardWord(slot.guard), slot.revision, false};
  const std::uint32_t done = segment.progress->done();
  const LaunchId id = table_.Add(job, JobLaunch::Kind::kOp, job.next_op, group_limit_);
  const Launch launch{id, StreamOf(job), RankOf(job), std::span(&segment, 1)};
  if (!Accepted(device_.Submit(launch), id, job)) return false;
  ++kernels_[best_effort ? kBestEffort : kRealTime];
  if (best_effort) ++revocable_;
  if (job.next_op < job.revoked_until) {
    job.result.resumed_blocks += done;
    stats_.resumed_blocks += done;
  }
  return true;
}

bool Mechanism::SubmitCopy(Job& job, Copy copy, JobLaunch::Kind kind, std::size_t index) {
  if (table_.full()) return false;
  copy.id = table_.Add(job, kind, index, 0);
  copy.stream = StreamOf(job);
  copy.rank = RankOf(job);
  return Accepted(device_.Transfer(copy), copy.id, job);
}

bool Mechanism::Accepted(SubmitResult result, LaunchId id, Job& job) {
  if (result == SubmitResult::kOk) {
    ++job.launches;
    ++stats_.launches;
    return true;
  }
  table_.Remove(id);
  ++stats_.refused_launches;
  return false;
}

StreamId Mechanism::StreamOf(const Job& job) const {
  switch (config_.streams) {
    case SchedulerConfig::Streams::kOne:
      return shared_stream_;
    case SchedulerConfig::Streams::kPerQueue:
      return job.queue->stream;
    case SchedulerConfig::Streams::kPooled:
      return kUnordered;
  }
  CheckFailed("a known Streams", __FILE__, __LINE__);
}

Rank Mechanism::RankOf(const Job& job) const {
  if (!config_.ranks_by_class) return 0;
  constexpr Rank kBehindRealTime = Rank{1} << 63;
  return Raw(job.id) | (job.job_class == JobClass::kBestEffort ? kBehindRealTime : 0);
}

}  // namespace lagoon
