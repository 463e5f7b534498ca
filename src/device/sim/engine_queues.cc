// How launches get from the host's submission to the compute units: through hardware queues, and
// through the front end, which starts one kernel after the other.

#include <algorithm>

#include "base/check.h"
#include "device/sim/engine.h"

namespace lagoon {

void SimEngine::Arrive(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.state = State::kWaiting;
  if (slot.stream == kUnordered) return TryReady(index, /*waited=*/false);
  Queue& queue = queues_[slot.lane];
  slot.in_queue = true;
  slot.queue_before = queue.last;
  slot.queue_after = kNoIndex;
  if (queue.last != kNoIndex) {
    slots_[queue.last].queue_after = index;
    queue.last = index;
    return;
  }
  queue.first = queue.last = index;
  ++queues_used_;
  ConsiderHead(slot.lane, /*waited=*/false);
}

// The device looks only at the head of a queue. A head that waits for its stream or its
// dependencies holds up everything behind it (Paella 2.1).
void SimEngine::ConsiderHead(std::uint32_t lane, bool waited) {
  const std::uint32_t index = queues_[lane].first;
  if (index == kNoIndex) return;
  Slot& slot = slots_[index];
  EnterFronts(index);
  if (Retirable(slot)) return Retire(index);
  if (slot.Complete()) return LeaveStream(index);
  if (slot.state == State::kWaiting && stream_launch_[Raw(slot.stream)] == kNoIndex) {
    TryReady(index, waited);
  }
}

void SimEngine::Move(std::uint32_t lane) {
  if (std::exchange(queues_[lane].moved, true)) return;
  moved_.push_back(lane);
}

void SimEngine::LeaveQueue(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!std::exchange(slot.in_queue, false)) return;
  Queue& queue = queues_[slot.lane];
  (slot.queue_before == kNoIndex ? queue.first : slots_[slot.queue_before].queue_after) =
      slot.queue_after;
  (slot.queue_after == kNoIndex ? queue.last : slots_[slot.queue_after].queue_before) =
      slot.queue_before;
  if (queue.first == kNoIndex) {
    --queues_used_;
    changed_ = true;  // an unordered launch may take the queue
  }
  Move(slot.lane);
}

// The next launch of its stream no longer waits for this one.
void SimEngine::LeaveStream(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.stream == kUnordered) return;
  slot.left_stream = true;
  LeaveQueue(index);
  std::uint32_t& launch = stream_launch_[Raw(slot.stream)];
  if (launch != index) return;
  launch = kNoIndex;
  Move(slot.lane);
}

void SimEngine::MakeReady(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.turn = next_turn_++;
  if (slot.is_copy) return Start(index);  // copy engines have their own queue
  slot.state = State::kReady;
  const Active ready{slot.rank, slot.turn, index};
  ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), ready), ready);
  changed_ = true;
}

// Launches of ordered streams are at the head of a queue already. An unordered launch needs a free
// queue until all of its blocks are placed.
bool SimEngine::HasQueueFor(const Slot& slot) const {
  return slot.stream != kUnordered || queues_held_ == 0 ||
         queues_held_ + queues_used_ < queues_.size();
}

void SimEngine::PumpFrontEnd() {
  const SimConstants& constants = options_.constants;
  for (;;) {
    const auto next = std::find_if(ready_.begin(), ready_.end(), [this](const Active& ready) {
      return HasQueueFor(slots_[ready.slot]);
    });
    if (next == ready_.end()) return;
    const Slot& slot = slots_[next->slot];
    const bool same = slot.lane == kNoIndex || slot.lane == last_lane_ || last_lane_ == kNoIndex;
    const Nanoseconds apart(same ? constants.dispatch_ns : constants.stream_switch_ns);
    const TimePoint at = std::max(evicted_at_, last_dispatch_ + apart);
    if (at > now_) {
      timers_.Set(front_end_timer_, at);
      return;
    }
    last_dispatch_ = now_;
    if (slot.lane != kNoIndex) last_lane_ = slot.lane;
    const std::uint32_t index = next->slot;
    ready_.erase(next);
    Start(index);
  }
}

void SimEngine::Start(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.state = State::kStarted;
  if (slot.stream == kUnordered && !slot.is_copy) {
    slot.holds_queue = true;
    ++queues_held_;
  }
  if (slot.MayBegin() && slot.progress->HasUnclaimed()) {
    Activate(index);
  } else {
    Exhausted(index);
  }
}

// The launch has no block left to place. Its queue moves on; its stream still waits for it.
void SimEngine::Exhausted(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (std::exchange(slot.holds_queue, false)) {
    --queues_held_;
    changed_ = true;
  }
  if (!slot.in_queue) return;
  stream_launch_[Raw(slot.stream)] = index;
  LeaveQueue(index);
}

}  // namespace lagoon
