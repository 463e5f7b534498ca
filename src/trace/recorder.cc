#include "trace/recorder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon {

TraceRecorder::TraceRecorder(const TraceOptions& options)
    : options_(options), events_(options.max_events) {}

void TraceRecorder::Attach(Device& device) {
  LAGOON_CHECK(blocks_.empty());
  const DeviceInfo& info = device.info();
  device_ = info.name;
  units_ = info.units;
  // In virtual time one thread at a time reports the blocks of all units.
  const std::size_t rings = info.virtual_time ? 1 : std::max(info.units, info.observed_units);
  const std::size_t capacity = std::max<std::size_t>(1, options_.max_blocks / rings);
  for (std::size_t i = 0; i < rings; ++i) blocks_.emplace_back(capacity);
  device.SetObserver(this);
}

void TraceRecorder::OnEnded(const DeviceBlock& block, TimePoint at, bool committed) {
  Ring<Block>& ring = blocks_.size() == 1 ? blocks_.front() : blocks_[block.unit];
  ring.Push({.begin = block.placed,
             .end = at,
             .launch = block.launch,
             .tile = block.tile,
             .unit = static_cast<std::uint16_t>(block.unit),
             .committed = committed});
}

void TraceRecorder::OnStart(const SchedulerConfig& config, TimePoint at) {
  dispatchers_.emplace_back();
  OnSwitch(config, at);
}

void TraceRecorder::OnSwitch(const SchedulerConfig& config, TimePoint at) {
  runs_.push_back({std::string(config.name), at, events_.pushed(), dispatchers_.size() - 1});
}

void TraceRecorder::OnQueue(QueueId queue, const QueueOptions& options) {
  std::vector<Queue>& queues = dispatchers_.back();
  if (queues.size() <= Raw(queue)) queues.resize(Raw(queue) + 1);
  Queue& added = queues[Raw(queue)];
  added.name = options.name;
  added.job_class = options.job_class;
}

void TraceRecorder::OnPlan(QueueId queue, std::uint32_t number, const Plan& plan) {
  if (number >= kMaxPlans) return;
  std::vector<PlanNames>& plans = dispatchers_.back()[Raw(queue)].plans;
  if (plans.size() <= number) plans.resize(number + 1);
  PlanNames& names = plans[number];
  for (const PlanOp& op : plan.ops) {
    names.kernels.push_back(op.kernel_name.empty() ? op.name : op.kernel_name);
    names.ops.push_back(op.name);
  }
}

void TraceRecorder::OnShare(ShareNote note) {
  const MutexLock lock(notes_mutex_);
  if (share_notes_.size() == kMaxShareNotes) share_notes_.pop_front();
  share_notes_.push_back(std::move(note));
}

std::deque<TraceRecorder::ShareNote> TraceRecorder::share_notes() const {
  const MutexLock lock(notes_mutex_);
  return share_notes_;
}

void TraceRecorder::OnEvent(const SchedEvent& event) { events_.Push(event); }

}  // namespace lagoon
