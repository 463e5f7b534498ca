// How launches get from the host's submission to the compute units: through hardware queues, and
// through the front end, which starts one kernel after the other.

#include <algorithm>

#include "base/check.h"
#include "sim/device/engine.h"

namespace lagoon {

void SimEngine::Arrive(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  launch.state = State::kWaiting;
  if (launch.stream == kUnordered) return TryReady(index, /*waited=*/false);
  if (queues_.Push(launch)) ConsiderHead(launch.lane, /*waited=*/false);
}

// The device looks only at the head of a queue. A head that waits for its stream or its
// dependencies holds up everything behind it (Paella 2.1).
void SimEngine::ConsiderHead(std::uint32_t lane, bool waited) {
  const std::uint32_t index = queues_.head(lane);
  if (index == kNoIndex) return;
  SimLaunch& launch = launches_[index];
  fronts_.Enter(launch);
  if (Retirable(launch)) return Retire(index);
  if (launch.Complete()) return LeaveStream(launch);
  if (launch.state == State::kWaiting && queues_.unfinished(launch.stream) == kNoIndex) {
    TryReady(index, waited);
  }
}

void SimEngine::LeaveQueue(SimLaunch& launch) {
  if (queues_.Remove(launch)) changed_ = true;  // an unordered launch may take the queue
}

void SimEngine::LeaveStream(SimLaunch& launch) {
  if (launch.stream == kUnordered) return;
  launch.left_stream = true;
  LeaveQueue(launch);
  queues_.Finish(launch);
}

void SimEngine::MakeReady(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  launch.turn = next_turn_++;
  if (launch.is_copy) return Start(index);  // copy engines have their own queue
  launch.state = State::kReady;
  const Active ready{launch.rank, launch.turn, index};
  ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), ready), ready);
  changed_ = true;
}

void SimEngine::PumpFrontEnd() {
  const SimConstants& constants = options_.constants;
  for (;;) {
    const auto next = std::find_if(ready_.begin(), ready_.end(), [this](const Active& ready) {
      return queues_.HasQueueFor(launches_[ready.launch]);
    });
    if (next == ready_.end()) return;
    const SimLaunch& launch = launches_[next->launch];
    const bool same =
        launch.lane == kNoIndex || launch.lane == last_lane_ || last_lane_ == kNoIndex;
    const Nanoseconds apart(same ? constants.dispatch_ns : constants.stream_switch_ns);
    const TimePoint at = std::max(evicted_at_, last_dispatch_ + apart);
    if (at > now_) {
      timers_.Set(front_end_timer_, at);
      return;
    }
    last_dispatch_ = now_;
    if (launch.lane != kNoIndex) last_lane_ = launch.lane;
    const std::uint32_t index = next->launch;
    ready_.erase(next);
    Start(index);
  }
}

void SimEngine::Start(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  launch.state = State::kStarted;
  if (launch.stream == kUnordered && !launch.is_copy) queues_.Hold(launch);
  if (launch.MayBegin() && launch.progress->HasUnclaimed()) {
    Activate(index);
  } else {
    Exhausted(index);
  }
}

// The launch has no block left to place. Its queue moves on; its stream still waits for it.
void SimEngine::Exhausted(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  if (queues_.Release(launch)) changed_ = true;
  if (!launch.in_queue) return;
  queues_.SetUnfinished(launch);
  LeaveQueue(launch);
}

}  // namespace lagoon
