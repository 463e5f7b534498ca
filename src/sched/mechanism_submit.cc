// What a step does once it knows the news: revoke, pick, pad and submit.

#include <algorithm>

#include "base/check.h"
#include "sched/mechanism.h"

namespace lagoon {
namespace {

constexpr int kRealTime = static_cast<int>(JobClass::kRealTime);
constexpr int kBestEffort = static_cast<int>(JobClass::kBestEffort);

}  // namespace

bool Mechanism::RealTimeWork() const {
  return real_time_computing_ > 0 || ready_.Any(JobClass::kRealTime);
}

bool Mechanism::RealTimeMode() const {
  return config_.preemption != SchedulerConfig::Preemption::kNone && RealTimeWork();
}

void Mechanism::RevokeBestEffort() {
  if (revocable_ == 0) return;
  if (observer_ != nullptr) {
    observer_->OnEvent(
        {.kind = SchedEvent::Kind::kRevoked, .value = revocable_, .at = device_.Now()});
  }
  device_.Raise(group_guard_, ++group_limit_);
  revocable_ = 0;
  ++stats_.revocations;
  for (Job& job : active_) {
    if (job.job_class != JobClass::kBestEffort || job.next_op == job.first_incomplete) continue;
    ++job.result.revocations;
    GoBack(job, job.first_incomplete);
  }
}

// Forgets that `op` and those after it were submitted.
void Mechanism::GoBack(Job& job, std::size_t op) {
  job.revoked_until = std::max(job.revoked_until, job.next_op);
  job.next_op = op;
  UpdateReady(job);
}

bool Mechanism::Fits() const {
  return config_.extra_blocks == 0 || kernels_[kRealTime] + kernels_[kBestEffort] < 2 ||
         blocks_ < device_.info().units + config_.extra_blocks;
}

ReadyView::Eligibility Mechanism::Eligible(bool best_effort) const {
  const auto room = [this](int job_class) {
    return config_.max_kernels == 0 || kernels_[job_class] < config_.max_kernels;
  };
  return {.real_time = room(kRealTime),
          .best_effort = best_effort && room(kBestEffort),
          .start_new = config_.max_active_jobs == 0 || active_.size() < config_.max_active_jobs};
}

void Mechanism::PickAndSubmit() {
  bool real_time_mode = RealTimeMode();
  const auto must_wait = [&] {
    return real_time_mode && kernels_[kBestEffort] > 0 &&
           config_.preemption == SchedulerConfig::Preemption::kWait;
  };
  while (Fits() && !must_wait()) {
    if (!Pick(ReadyView(ready_, Eligible(!real_time_mode)), nullptr)) break;
    real_time_mode = RealTimeMode();
  }
  if (real_time_mode && config_.padding) PadRealTime();
  device_.SetWorkHeld(ready_.Any(JobClass::kRealTime) || ready_.Any(JobClass::kBestEffort));
}

// False: nothing is eligible, or nothing more fits. What is full steps again with its next
// retirement.
bool Mechanism::Pick(const ReadyView& view, const PaddingRoom* room) {
  const Decision decision = policy_.Pick({device_.Now(), view});
  if (!decision.job) return false;
  Job& job = *jobs_.find(*decision.job);
  LAGOON_CHECK(job.ready_hook.is_linked() && decision.ops > 0);
  job.served = ++picks_;
  if (!job.started) Start(job);
  return SubmitNext(job, decision.ops, room) == Submitted::kAll;
}

std::optional<PaddingRoom> Mechanism::FindRoom() const {
  std::optional<PaddingRoom> room;
  std::uint32_t taken = 0;  // by all other real-time jobs
  for (const Job& job : active_) {
    if (job.job_class != JobClass::kRealTime || job.state != Job::State::kActive ||
        job.first_incomplete == job.instance->plan().ops.size()) {
      continue;
    }
    const std::optional<PaddingRoom> beside = RoomBeside(job, device_.info().units);
    if (!beside) return std::nullopt;
    taken += device_.info().units - beside->units;
    if (!room || beside->time < room->time) room = beside;
  }
  if (!room || taken >= device_.info().units) return std::nullopt;
  room->units = device_.info().units - taken;
  return room;
}

// One job at a time, so that no more units than the room has are taken for long.
void Mechanism::PadRealTime() {
  if (!ready_.Any(JobClass::kBestEffort)) return;
  const std::optional<PaddingRoom> room = FindRoom();
  if (!room) return;
  if (padding_ == 0) {
    Pick(ReadyView(ready_, {.real_time = false, .best_effort = true, .start_new = true}), &*room);
  } else if (padding_job_->ready_hook.is_linked()) {
    SubmitNext(*padding_job_, ~0u, &*room);
  }
}

Mechanism::Submitted Mechanism::SubmitNext(Job& job, std::uint32_t ops, const PaddingRoom* room) {
  Instance& instance = *job.instance;
  for (; job.next_input < job.inputs.size(); ++job.next_input) {
    const Copy copy = instance.InputCopy(job.next_input, job.inputs[job.next_input]);
    if (!SubmitCopy(job, copy, JobLaunch::Kind::kInput, job.next_input)) return Submitted::kFull;
  }
  UpdateReady(job);
  const std::size_t last = instance.plan().ops.size();
  std::uint32_t kernels = 0;
  Submitted submitted = Submitted::kAll;
  while (kernels < ops && job.ready_hook.is_linked() && job.next_op < last) {
    if (!instance.progress(job.next_op).Complete()) {
      if (room != nullptr && !FitsInto(*room, job.queue->costs[job.size].block(job.next_op))) {
        submitted = Submitted::kUnfit;
        break;
      }
      if (!SubmitOp(job, room)) {
        submitted = Submitted::kFull;
        break;
      }
      ++kernels;
    }
    ++job.next_op;
    UpdateReady(job);
  }
  if (kernels > 0) policy_.OnSubmitted(job, kernels);
  if (submitted != Submitted::kAll || job.first_incomplete < last) return submitted;
  for (; job.next_output < job.outputs.size(); ++job.next_output) {
    const Copy copy = instance.OutputCopy(job.next_output, job.outputs[job.next_output]);
    if (!SubmitCopy(job, copy, JobLaunch::Kind::kOutput, job.next_output)) return Submitted::kFull;
  }
  UpdateReady(job);
  return Submitted::kAll;
}

bool Mechanism::SubmitOp(Job& job, const PaddingRoom* room) {
  if (table_.full()) return false;
  JobQueue::Slot& slot = job.queue->slots[job.slot];
  Segment segment = job.instance->segment(job.next_op);
  const bool best_effort = job.job_class == JobClass::kBestEffort;
  if (room != nullptr) {
    segment.guards[0] = GuardOf(*room);
    segment.max_claimants = room->units;
  } else if (best_effort && config_.preemption != SchedulerConfig::Preemption::kNone) {
    segment.guards[0] = {device_.GuardWord(group_guard_), group_limit_,
                         config_.preemption == SchedulerConfig::Preemption::kWait};
  }
  segment.guards[1] = {device_.GuardWord(slot.guard), slot.revision, false};
  const std::uint32_t done = segment.progress->done();
  const LaunchId id = table_.Add({.job = &job,
                                  .kind = JobLaunch::Kind::kOp,
                                  .index = static_cast<std::uint32_t>(job.next_op),
                                  .limit = group_limit_,
                                  .blocks = segment.progress->blocks() - done,
                                  .padding = room != nullptr,
                                  .whole = done == 0});
  const Launch launch{id, job.stream, RankOf(job), std::span(&segment, 1)};
  const TimePoint at = observer_ == nullptr ? TimePoint{} : device_.Now();
  if (!Accepted(device_.Submit(launch), id, job)) return false;
  ++kernels_[best_effort ? kBestEffort : kRealTime];
  blocks_ += segment.progress->blocks() - done;
  ++slot.in_flight[job.next_op];
  if (best_effort && room == nullptr) ++revocable_;
  if (room != nullptr) {
    ++padding_;
    padding_job_ = &job;
    ++stats_.padded_launches;
  }
  const bool resumed = job.next_op < job.revoked_until && done > 0;
  if (resumed) {
    job.result.resumed_blocks += done;
    stats_.resumed_blocks += done;
  }
  if (observer_ != nullptr) {
    TellLaunch(SchedEvent::Kind::kLaunched, id, at, static_cast<std::uint32_t>(job.size));
    if (resumed) TellLaunch(SchedEvent::Kind::kResumed, id, at, done);
  }
  return true;
}

bool Mechanism::SubmitCopy(Job& job, Copy copy, JobLaunch::Kind kind, std::size_t index) {
  if (table_.full()) return false;
  copy.id = table_.Add({.job = &job, .kind = kind, .index = static_cast<std::uint32_t>(index)});
  copy.stream = job.stream;
  copy.rank = RankOf(job);
  const TimePoint at = observer_ == nullptr ? TimePoint{} : device_.Now();
  if (!Accepted(device_.Transfer(copy), copy.id, job)) return false;
  if (observer_ != nullptr) {
    TellLaunch(SchedEvent::Kind::kLaunched, copy.id, at, static_cast<std::uint32_t>(job.size));
  }
  return true;
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

StreamId Mechanism::NextStream(const JobQueue& queue) {
  switch (config_.streams) {
    case SchedulerConfig::Streams::kOne:
    case SchedulerConfig::Streams::kPerJob:
      return streams_[next_stream_++ % streams_.size()];
    case SchedulerConfig::Streams::kPerQueue:
      return queue.stream;
    case SchedulerConfig::Streams::kPooled:
      return kUnordered;
  }
  CheckFailed("a known Streams", __FILE__, __LINE__);
}

Rank Mechanism::RankOf(const Job& job) const {
  constexpr Rank kBehindRealTime = Rank{1} << 63;
  constexpr Rank kBehindDeadlines = Rank{1} << 62;
  const bool best_effort = job.job_class == JobClass::kBestEffort;
  switch (config_.ranks) {
    case SchedulerConfig::Ranks::kSubmission:
      return 0;
    case SchedulerConfig::Ranks::kClass:
      return Raw(job.id) | (best_effort ? kBehindRealTime : 0);
    case SchedulerConfig::Ranks::kDeadline:
      if (best_effort) return kBehindRealTime;
      if (job.deadline == kNoDeadline) return kBehindDeadlines | Raw(job.id);
      return std::min(
          static_cast<Rank>(std::max<std::int64_t>(0, job.deadline.time_since_epoch().count())),
          kBehindDeadlines - 1);
  }
  CheckFailed("a known Ranks", __FILE__, __LINE__);
}

}  // namespace lagoon
