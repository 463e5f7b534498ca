#include "device/sim/engine.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon {
namespace {

std::uint32_t GroupsOf(const SimConstants& constants) {
  return static_cast<std::uint32_t>(constants.units * constants.blocks_per_unit);
}

}  // namespace

SimEngine::SimEngine(const Options& options, const GuardWords& guards, TimePoint start)
    : options_(options),
      guards_(guards),
      now_(start),
      units_(options.constants),
      // Events stay until they are polled, while launches come and go.
      events_(std::size_t{8} * options.launches, Nanoseconds(options.constants.notify_latency_ns)),
      first_slot_timer_(GroupsOf(options.constants)),
      first_copy_timer_(first_slot_timer_ + options.launches),
      front_end_timer_(first_copy_timer_ +
                       static_cast<std::uint32_t>(options.constants.copy_engines)),
      timers_(front_end_timer_ + 1),
      slots_(options.launches, /*streams=*/0),
      groups_(first_slot_timer_),
      queues_(static_cast<std::size_t>(options.constants.hardware_queues)),
      stream_launch_(options.streams + 1, kNoIndex),
      evictions_(queues_.size()),
      copy_engines_(static_cast<std::size_t>(options.constants.copy_engines)),
      last_dispatch_(start - std::chrono::hours(1)),
      evicted_at_(start) {
  fronts_.reserve(options.launches);
  hits_.reserve(options.launches);
  active_.reserve(options.launches);
  copies_.reserve(options.launches);
  ready_.reserve(options.launches);
  moved_.reserve(queues_.size());
  candidates_.reserve(units_.size());
  for (std::uint32_t i = first_slot_timer_; i-- > 0;) {
    groups_[i].after = free_group_;
    free_group_ = i;
  }
}

void SimEngine::RunUntil(TimePoint until) {
  while (timers_.next() <= until) {
    Advance(timers_.next());
    while (timers_.next() == now_) Fire(timers_.Pop());
    Settle();
  }
  Advance(until);
}

void SimEngine::Advance(TimePoint to) {
  busy_ += (to - now_) * units_.busy();
  now_ = to;
}

void SimEngine::Fire(std::uint32_t timer) {
  if (timer < first_slot_timer_) {
    EndGroup(timer);
  } else if (timer < first_copy_timer_) {
    const std::uint32_t index = timer - first_slot_timer_;
    slots_[index].state == State::kArriving ? Arrive(index) : MakeReady(index);
  } else if (timer < front_end_timer_) {
    EndChunk(timer - first_copy_timer_);
  } else {
    changed_ = true;
  }
}

// Makes all changes that take no time.
void SimEngine::Settle() {
  while (changed_ || !moved_.empty()) {
    while (!moved_.empty()) {
      const std::uint32_t lane = moved_.back();
      moved_.pop_back();
      queues_[lane].moved = false;
      ConsiderHead(lane, /*waited=*/true);
    }
    changed_ = false;
    PumpFrontEnd();
    PumpCopies();
    PlaceAll();
  }
}

SubmitResult SimEngine::Add(const Launch& launch, const SimKernel& kernel) {
  Slot* const slot = slots_.Take(launch, events_);
  if (slot == nullptr) return SubmitResult::kFull;
  slot->kernel = &kernel;
  Insert(*slot);
  return SubmitResult::kOk;
}

SubmitResult SimEngine::Add(const Copy& copy) {
  Slot* const slot = slots_.Take(copy, events_);
  if (slot == nullptr) return SubmitResult::kFull;
  Insert(*slot);
  return SubmitResult::kOk;
}

void SimEngine::Insert(Slot& slot) {
  const std::uint32_t index = IndexOf(slot);
  slots_.Link(slot);
  slot.state = State::kArriving;
  slot.lane = LaneOf(slot);
  if (slot.stream == kUnordered) EnterFronts(index);
  if (Retirable(slot)) {
    by_host_ = true;
    Retire(index);
    by_host_ = false;
    return;
  }
  timers_.Set(first_slot_timer_ + index, now_ + Nanoseconds(options_.constants.launch_latency_ns));
}

// An ordered stream has one hardware queue. An unordered launch goes where the launches that it
// depends on went, as if it were in their stream. If there is none, it takes the next queue in
// turn. Padding goes with the kernel that it pads: in REEF the two are one launch.
std::uint32_t SimEngine::LaneOf(const Slot& slot) {
  const auto queues = static_cast<std::uint32_t>(queues_.size());
  if (slot.stream != kUnordered) return (Raw(slot.stream) - 1) % queues;
  if (slot.max_claimants != 0) return kNoIndex;
  for (const Dep& dep : slot.deps) {
    const std::uint32_t lane = LaneOf(dep);
    if (lane != kNoIndex) return lane;
  }
  return next_lane_++ % queues;
}

// The queue of the launch that names the record `dep.on`, or named it a short while ago. A record
// may lie at the address of an older record, whose launch has retired. If `dep` is met, the launch
// that completed it retired later than that one. The newest entry is looked at first, so addresses
// make no difference.
std::uint32_t SimEngine::LaneOf(const Dep& dep) const {
  for (const Front& front : fronts_) {
    if (front.names == dep.on && slots_[front.slot].lane != kNoIndex)
      return slots_[front.slot].lane;
  }
  for (std::size_t i = 0; dep.Met() && i < recent_.size(); ++i) {
    const Recent& recent = recent_[(next_recent_ - 1 - i) % recent_.size()];
    if (recent.names == dep.on) return recent.lane;
  }
  return kNoIndex;
}

void SimEngine::EnterFronts(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.front != kNoIndex) return;
  slot.front = static_cast<std::uint32_t>(fronts_.size());
  const bool always = slot.WatchesCount(guards_);
  watchers_ += always ? 1 : 0;
  fronts_.push_back({slot.progress, nullptr, index, always});
}

void SimEngine::LeaveFronts(Slot& slot) {
  if (slot.front == kNoIndex) return;
  watchers_ -= fronts_[slot.front].look_always ? 1 : 0;
  fronts_[slot.front] = fronts_.back();
  slots_[fronts_[slot.front].slot].front = slot.front;
  fronts_.pop_back();
  slot.front = kNoIndex;
}

// Acts on a change that concerns one launch.
void SimEngine::Look(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!slot.live) return;
  if (slot.front != kNoIndex && fronts_[slot.front].look_always) MakeLeave(index, now_);
  if (Retirable(slot)) return Retire(index);
  if (slot.stream != kUnordered && !slot.left_stream && slot.Complete()) return LeaveStream(index);
  if (slot.state == State::kWaiting) {
    const bool first = slot.stream == kUnordered || (queues_[slot.lane].first == index &&
                                                     stream_launch_[Raw(slot.stream)] == kNoIndex);
    if (first) TryReady(index, /*waited=*/true);
  } else if (slot.state == State::kStarted && !slot.active && slot.MayBegin() &&
             slot.progress->HasUnclaimed()) {
    Activate(index);
  }
}

// `waited`: the launch was queued before it could run, so the bubble between kernels comes first.
void SimEngine::TryReady(std::uint32_t index, bool waited) {
  Slot& slot = slots_[index];
  if (slot.MayBegin()) {
    fronts_[slot.front].waits_for = nullptr;
    const Nanoseconds gap(waited ? options_.constants.dependent_gap_ns : 0);
    if (gap == Nanoseconds(0)) return MakeReady(index);
    slot.state = State::kGap;
    timers_.Set(first_slot_timer_ + index, now_ + gap);
    return;
  }
  for (const Dep& dep : slot.deps) {
    if (!dep.Met()) {
      fronts_[slot.front].waits_for = dep.on;
      return;
    }
  }
}

bool SimEngine::Retirable(const Slot& slot) { return slot.running == 0 && slot.Over(); }

void SimEngine::Retire(std::uint32_t index) {
  Slot& slot = slots_[index];
  Report(slot, DeviceEvent::Kind::kRetired);
  timers_.Drop(first_slot_timer_ + index);
  Deactivate(index);
  if (slot.state == State::kReady) {
    std::erase_if(ready_, [index](const Active& ready) { return ready.slot == index; });
  }
  recent_[next_recent_++ % recent_.size()] = {slot.progress, slot.lane};
  LeaveFronts(slot);
  LeaveStream(index);
  if (slot.holds_queue) Exhausted(index);
  slot.state = State::kFree;
  slots_.Free(slot, events_);
}

void SimEngine::Report(Slot& slot, DeviceEvent::Kind kind) {
  slots_.UseCredit(slot);
  const DeviceEvent event{kind, slot.id, now_};
  // A started launch may have events under way, which this event must not overtake.
  if (by_host_ && !slot.started) {
    events_.PushFromHost(event);
  } else {
    events_.PushFromDevice(event);
  }
}

}  // namespace lagoon
