// What the device reports: placed, complete and retired launches, and its loss.

#include <algorithm>
#include <array>

#include "sched/mechanism.h"

namespace lagoon {

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
  JobLaunch& record = launches_.Find(event.launch);
  record.placed = event.at;
  TimePoint& first = record.job->result.first_block;
  if (first == TimePoint{}) first = event.at;
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
      in_flight_.Remove(record);
      record.blocks = 0;
      Advance(job, event.at);
      break;
    case JobLaunch::Kind::kOutput:
      --job.outputs_left;
      break;
  }
}

void Mechanism::OnRetired(const DeviceEvent& event, FinishedJobs& finished) {
  const JobLaunch record = launches_.Find(event.launch);
  if (observer_ != nullptr) TellUnfinished(event);
  launches_.Remove(event.launch);
  Job& job = *record.job;
  --job.launches;
  if (record.kind == JobLaunch::Kind::kOp) OnOpRetired(event.launch, record, event.at);
  if (record.kind == JobLaunch::Kind::kOutput) OnOutputRetired(record);
  if (job.launches > 0) return;
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
  in_flight_.Remove(record);
  const std::uint32_t in_flight = --job.instance->in_flight(record.index);
  if (record.padding) {
    padding_.Remove(id);
  } else if (record.spared) {
    spared_ = {};
  } else if (job.job_class == JobClass::kBestEffort && record.limit == group_limit_) {
    --revocable_;
  }
  if (job.state != Job::State::kActive) return;
  // The kernel may be complete by now: after a revocation it may have two launches in flight, and a
  // block of either may complete it.
  Advance(job, at);
  // Padding was revoked when its room ended, and a launch that is spared leaves after one block.
  // The rest of the blocks is not submitted yet.
  if (in_flight == 0 && record.index < job.next_op &&
      !job.instance->progress(record.index).Complete()) {
    GoBack(job, record.index);
  }
}

void Mechanism::OnOutputRetired(const JobLaunch& record) {
  Job& job = *record.job;
  --job.output_launches;
  if (job.state != Job::State::kActive) return;
  // Revoked before it began: submit it again, with its kernels.
  if (!job.instance->OutputCopy(record.index, nullptr).progress->Complete()) {
    job.next_output = std::min<std::size_t>(job.next_output, record.index);
  }
  UpdateReady(job);
}

void Mechanism::OnLost(FinishedJobs& finished) {
  lost_ = true;
  minimum_ = BestEffortMinimum(config_.best_effort_minimum);
  held_until_ = kNoDeadline;
  while (!jobs_.empty()) Finish(*jobs_.begin(), Outcome::kFailed, finished);
}

}  // namespace lagoon
