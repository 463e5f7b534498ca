// What the device reports: placed, complete and retired launches, and its loss.

#include <algorithm>
#include <array>

#include "sched/mechanism.h"

namespace lagoon {
namespace {

const PlanOp& OpOf(const Job& job, std::size_t op) { return job.instance->plan().ops[op]; }

}  // namespace

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
        case DeviceEvent::Kind::kProgress:
          OnProgress(events[i]);
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
  JobLaunch& record = launches_.Find(event.launch);
  record.placed = event.at;
  Job& job = *record.job;
  TimePoint& first = job.result.first_block;
  if (first == TimePoint{}) first = event.at;
  if (record.kind == JobLaunch::Kind::kOp && job.op_since == TimePoint{}) job.op_since = event.at;
}

// A launch that is complete is settled: what comes later changes nothing.
void Mechanism::OnProgress(const DeviceEvent& event) {
  ledger_.Update(launches_.Find(event.launch), event.placed, event.done);
}

void Mechanism::OnComplete(const DeviceEvent& event) {
  JobLaunch& record = launches_.Find(event.launch);
  Job& job = *record.job;
  switch (record.kind) {
    case JobLaunch::Kind::kInput:
      if (--job.inputs_left == 0) job.result.inputs_copied = event.at;
      break;
    case JobLaunch::Kind::kOp:
      if (record.whole && !Revoked(record)) {
        job.costs->Observe(record.index, event.at - record.placed);
      }
      if (job.job_class == JobClass::kRealTime) job.queue->ran.now += event.at - record.placed;
      ledger_.Remove(record);
      Advance(job, event.at);
      break;
    case JobLaunch::Kind::kOutput:
      --job.outputs_left;
      break;
  }
}

void Mechanism::OnRetired(const DeviceEvent& event, FinishedJobs& finished) {
  JobLaunch record = launches_.Find(event.launch);
  if (observer_ != nullptr) TellUnfinished(event);
  launches_.Remove(event.launch);
  Job& job = *record.job;
  --job.launches;
  job.result.stolen += event.stolen;
  if (record.kind == JobLaunch::Kind::kOp) ledger_.Remove(record);
  if (record.kind == JobLaunch::Kind::kOp) OnOpRetired(event.launch, record, event.at);
  if (record.kind == JobLaunch::Kind::kOutput) OnOutputRetired(record);
  if (job.launches > 0) return;
  job.launches_wait = false;
  UpdateReady(job);  // its next launches may be of another kind (InBackground)
  if (job.state == Job::State::kLeaving) {
    Finish(job, job.result.outcome, finished);
  } else if (job.first_incomplete == job.instance->plan().ops.size() &&
             job.next_output == job.outputs.size() && job.outputs_left == 0) {
    job.result.error = job.instance->Failure();
    job.result.made = job.instance->TakeMade();
    Finish(job, job.result.error == nullptr ? Outcome::kDone : Outcome::kFailed, finished);
  }
}

void Mechanism::OnOpRetired(LaunchId id, const JobLaunch& record, TimePoint at) {
  Job& job = *record.job;
  --kernels_[static_cast<int>(job.job_class)];
  const std::uint32_t in_flight = --job.instance->in_flight(record.index);
  if (record.padding) {
    padding_.Remove(job, id);
  } else if (record.spared) {
    spared_ = {};
  } else if (job.job_class == JobClass::kBestEffort && record.limit == group_limit_) {
    --revocable_;
  }
  if (job.state != Job::State::kActive) return;
  // The kernel may be complete by now: after a revocation it may have two launches in flight, and a
  // block of either may complete it.
  Advance(job, at);
  const bool begun = record.placed != TimePoint{};
  const bool complete = job.instance->progress(record.index).Complete();
  const bool job_revoked = record.revision != job.queue->slots[job.slot].revision;
  const bool interrupted =
      begun && !complete && (!record.slice || Revoked(record) || (record.padding && job_revoked));
  if (interrupted && OpOf(job, record.index).restart == Restart::kByGroup) {
    Interrupt(job, record.index);
    // Padding that left with its room was not revoked, and neither was what waits for it. The group
    // restarts when that has left too.
    if (record.padding && !job_revoked && job.launches > 0) Revoke(job);
  }
  if (job.interrupted.any) return RestartGroup(job);
  // Padding was revoked when its room ended, and a launch that is spared leaves after one block.
  // The rest of the blocks is not submitted yet. After a slice of SchedulerConfig::kernel_slice no
  // other kernel of the job is there.
  if (in_flight == 0 && record.index < job.next_op && !complete) {
    if (record.slice && !record.padding) {
      SetNextOp(job, record.index);
      return UpdateReady(job);
    }
    job.launches_wait = true;
    GoBack(job, record.index);
  }
}

// Blocks of the op left without their tiles, and may have overwritten what they read.
void Mechanism::Interrupt(Job& job, std::size_t op) {
  const std::size_t first = OpOf(job, op).group_first;
  Job::Interrupted& interrupted = job.interrupted;
  interrupted.first = interrupted.any ? std::min(interrupted.first, first) : first;
  interrupted.last = interrupted.any ? std::max(interrupted.last, op) : op;
  interrupted.any = true;
  UpdateReady(job);
}

// Once no launch of the job can touch the ops any more: forgets what the interrupted groups have
// done, so that they run again from their first op.
void Mechanism::RestartGroup(Job& job) {
  const auto [any, first, last] = job.interrupted;
  const std::size_t end = std::max(job.next_op, job.revoked_until);
  if (job.output_launches > 0) return;
  for (std::size_t op = first; op < std::max(end, last + 1); ++op) {
    if (job.instance->in_flight(op) > 0) return;
  }
  for (std::size_t op = first; op <= last; ++op) {
    job.instance->progress(op).Reset();
    if (op < job.first_incomplete) job.remaining += job.costs->kernel(op);
  }
  stats_.reexecuted += last + 1 - first;
  job.result.repeated_kernels += last + 1 - first;
  job.restarts.times = job.restarts.op == last ? job.restarts.times + 1 : 1;
  job.restarts.op = last;
  job.interrupted = {};
  job.counted = 0;
  job.first_incomplete = std::min(job.first_incomplete, first);
  GoBack(job, job.first_incomplete);
}

void Mechanism::OnOutputRetired(const JobLaunch& record) {
  Job& job = *record.job;
  --job.output_launches;
  if (job.state != Job::State::kActive) return;
  // Revoked before it began: submit it again, with its kernels.
  if (!job.instance->OutputCopy(record.index, nullptr).progress->Complete()) {
    job.next_output = std::min<std::size_t>(job.next_output, record.index);
  }
  if (job.interrupted.any) RestartGroup(job);
  UpdateReady(job);
}

void Mechanism::OnLost(FinishedJobs& finished) {
  lost_ = true;
  minimum_ = BestEffortMinimum(config_.best_effort_minimum);
  held_until_ = kNoDeadline;
  while (!jobs_.empty()) Finish(*jobs_.begin(), Outcome::kFailed, finished);
}

}  // namespace lagoon
