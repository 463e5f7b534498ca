// The mechanism's calls of its observer.

#include "sched/mechanism.h"

namespace lagoon {

void Mechanism::Observe(SchedObserver* observer) {
  observer_ = observer;
  depths_.fill(~std::uint32_t{0});  // report all depths first, zeros too
  if (observer_ != nullptr) observer_->OnStart(config_, device_.Now());
}

void Mechanism::TellPlan(const QueuePlan& plan) {
  if (observer_ != nullptr) observer_->OnPlan(plan.queue(), plan.number(), plan.plan());
}

void Mechanism::TellJob(SchedEvent::Kind kind, const Job& job, TimePoint at, std::uint32_t value) {
  observer_->OnEvent(
      {.kind = kind, .queue = job.queue_id, .value = value, .job = job.id, .at = at});
}

void Mechanism::TellLaunch(SchedEvent::Kind kind, LaunchId id, TimePoint at, std::uint32_t value) {
  const JobLaunch& launch = launches_.Find(id);
  const auto work = launch.kind == JobLaunch::Kind::kInput ? SchedEvent::Work::kInput
                    : launch.kind == JobLaunch::Kind::kOp  ? SchedEvent::Work::kKernel
                                                           : SchedEvent::Work::kOutput;
  observer_->OnEvent({.kind = kind,
                      .work = work,
                      .padding = launch.padding,
                      .queue = launch.job->queue_id,
                      .index = launch.index,
                      .value = value,
                      .job = launch.job->id,
                      .launch = id,
                      .at = at});
}

// Reports a launch that retired before its kernel was complete.
void Mechanism::TellUnfinished(const DeviceEvent& retired) {
  const JobLaunch& launch = launches_.Find(retired.launch);
  if (launch.kind != JobLaunch::Kind::kOp) return;
  if (launch.job->instance->progress(launch.index).Complete()) return;
  const bool ran = launch.placed != TimePoint{};
  TellLaunch(ran ? SchedEvent::Kind::kLeft : SchedEvent::Kind::kEvicted, retired.launch,
             retired.at);
}

void Mechanism::TellDepths() {
  const auto ready = [this](JobClass job_class) {
    return ready_.jobs(job_class, true).size() + ready_.jobs(job_class, false).size();
  };
  const std::array<std::size_t, SchedEvent::kDepths> now = {
      ready(JobClass::kRealTime), ready(JobClass::kBestEffort), jobs_.size() - active_.size(),
      launches_.size()};
  for (std::uint32_t i = 0; i < now.size(); ++i) {
    const auto depth = static_cast<std::uint32_t>(now[i]);
    if (std::exchange(depths_[i], depth) == depth) continue;
    observer_->OnEvent(
        {.kind = SchedEvent::Kind::kDepth, .index = i, .value = depth, .at = device_.Now()});
  }
}

}  // namespace lagoon
