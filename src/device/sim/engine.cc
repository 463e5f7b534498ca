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
      slots_(options.launches),
      groups_(first_slot_timer_),
      queues_(static_cast<std::size_t>(options.constants.hardware_queues)),
      stream_launch_(options.streams + 1, kNone),
      evictions_(queues_.size()),
      copy_engines_(static_cast<std::size_t>(options.constants.copy_engines)),
      last_dispatch_(start - std::chrono::hours(1)),
      evicted_at_(start) {
  fronts_.reserve(options.launches);
  hits_.reserve(options.launches);
  active_.reserve(std::size_t{options.launches} * kMaxSegments);
  copies_.reserve(options.launches);
  ready_.reserve(options.launches);
  moved_.reserve(queues_.size());
  candidates_.reserve(units_.size());
  for (std::uint32_t i = options.launches; i-- > 0;) {
    slots_[i].live_after = free_;
    free_ = i;
  }
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

SubmitResult SimEngine::Add(const Launch& launch, std::span<const SimKernel* const> kernels) {
  LAGOON_CHECK(!launch.segments.empty() && launch.segments.size() <= kMaxSegments);
  Slot* slot = Reserve(static_cast<std::uint32_t>(launch.segments.size()));
  if (slot == nullptr) return SubmitResult::kFull;
  slot->id = launch.id;
  slot->stream = launch.stream;
  slot->rank = launch.rank;
  for (std::size_t i = 0; i < launch.segments.size(); ++i) {
    const Segment& from = launch.segments[i];
    LAGOON_CHECK(from.progress != nullptr);
    WorkSegment& segment = slot->segments[i];
    segment = {};
    segment.kernel = kernels[i];
    segment.args = from.args;
    segment.progress = from.progress;
    segment.deps = from.deps;
    segment.max_claimants = from.max_claimants;
    std::copy(std::begin(from.guards), std::end(from.guards), segment.guards.begin());
  }
  Insert(*slot);
  return SubmitResult::kOk;
}

SubmitResult SimEngine::Add(const Copy& copy) {
  LAGOON_CHECK(copy.progress != nullptr && copy.progress->blocks() == CopyBlocks(copy.bytes));
  Slot* slot = Reserve(1);
  if (slot == nullptr) return SubmitResult::kFull;
  slot->id = copy.id;
  slot->stream = copy.stream;
  slot->rank = copy.rank;
  slot->copy = copy;
  slot->segments[0] = {};
  slot->segments[0].progress = copy.progress;
  slot->segments[0].deps = copy.deps;
  slot->segments[0].guards = CopyGuards(copy);
  Insert(*slot);
  return SubmitResult::kOk;
}

SimEngine::Slot* SimEngine::Reserve(std::uint32_t segments) {
  // One kRetired, and a kPlaced and a kComplete for each segment.
  const std::uint32_t credits = 1 + 2 * segments;
  if (free_ == kNone || !events_.Reserve(credits)) return nullptr;
  Slot& slot = slots_[free_];
  free_ = slot.live_after;
  slot.segment_count = segments;
  slot.credits = credits;
  slot.sequence = next_sequence_++;
  slot.in_queue = slot.holds_queue = slot.started = slot.left_stream = slot.evicted = false;
  slot.running = 0;
  slot.front = kNone;
  return &slot;
}

void SimEngine::Insert(Slot& slot) {
  const std::uint32_t index = IndexOf(slot);
  slot.live_before = live_last_;
  slot.live_after = kNone;
  (live_last_ == kNone ? live_first_ : slots_[live_last_].live_after) = index;
  live_last_ = index;
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
  const WorkSegment& first = slot.segments[0];
  if (first.max_claimants != 0) return kNone;
  for (const Dep& dep : first.deps) {
    const std::uint32_t lane = LaneOf(dep);
    if (lane != kNone) return lane;
  }
  return next_lane_++ % queues;
}

// The queue of the launch that names the record `dep.on`, or named it a short while ago. A record
// may lie at the address of an older record, whose launch has retired. If `dep` is met, the launch
// that completed it retired later than that one. The newest entry is looked at first, so addresses
// make no difference.
std::uint32_t SimEngine::LaneOf(const Dep& dep) const {
  for (const Front& front : fronts_) {
    if (front.names == dep.on && slots_[front.slot].lane != kNone) return slots_[front.slot].lane;
  }
  for (std::size_t i = 0; dep.Met() && i < recent_.size(); ++i) {
    const Recent& recent = recent_[(next_recent_ - 1 - i) % recent_.size()];
    if (recent.names == dep.on) return recent.lane;
  }
  return kNone;
}

bool SimEngine::LooksAlways(const Slot& slot) const {
  if (slot.segment_count > 1) return true;
  const WorkSegment& segment = slot.segments[0];
  return std::any_of(segment.deps.begin(), segment.deps.end(),
                     [](const Dep& dep) { return dep.blocks < dep.on->blocks(); }) ||
         std::any_of(segment.guards.begin(), segment.guards.end(), [this](const Guard& guard) {
           return guard.word != nullptr && !guards_.Owns(guard.word);
         });
}

void SimEngine::EnterFronts(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.front != kNone) return;
  slot.front = static_cast<std::uint32_t>(fronts_.size());
  const bool always = LooksAlways(slot);
  watchers_ += always ? 1 : 0;
  fronts_.push_back({slot.segments[0].progress, nullptr, index, always});
}

void SimEngine::LeaveFronts(Slot& slot) {
  if (slot.front == kNone) return;
  watchers_ -= fronts_[slot.front].look_always ? 1 : 0;
  fronts_[slot.front] = fronts_.back();
  slots_[fronts_[slot.front].slot].front = slot.front;
  fronts_.pop_back();
  slot.front = kNone;
}

// Acts on a change that concerns one launch.
void SimEngine::Look(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.state == State::kFree) return;
  if (slot.front != kNone && fronts_[slot.front].look_always) RevokeSegments(index, now_);
  if (Retirable(slot)) return Retire(index);
  if (slot.stream != kUnordered && !slot.left_stream && Finished(slot)) return LeaveStream(index);
  if (slot.state == State::kWaiting) {
    const bool first = slot.stream == kUnordered || (queues_[slot.lane].first == index &&
                                                     stream_launch_[Raw(slot.stream)] == kNone);
    if (first) TryReady(index, /*waited=*/true);
  } else if (slot.state == State::kStarted) {
    for (std::uint32_t i = 0; i < slot.segment_count; ++i) {
      const WorkSegment& segment = slot.segments[i];
      if (!segment.active && Runnable(slot, segment) && segment.progress->HasUnclaimed()) {
        Activate(index, i);
      }
    }
  }
}

// `waited`: the launch was queued before it could run, so the bubble between kernels comes first.
void SimEngine::TryReady(std::uint32_t index, bool waited) {
  Slot& slot = slots_[index];
  const auto end = slot.segments.begin() + slot.segment_count;
  if (std::any_of(slot.segments.begin(), end,
                  [&slot](const WorkSegment& segment) { return Runnable(slot, segment); })) {
    fronts_[slot.front].waits_for = nullptr;
    const Nanoseconds gap(waited ? options_.constants.dependent_gap_ns : 0);
    if (gap == Nanoseconds(0)) return MakeReady(index);
    slot.state = State::kGap;
    timers_.Set(first_slot_timer_ + index, now_ + gap);
    return;
  }
  for (const Dep& dep : slot.segments[0].deps) {
    if (!dep.Met()) {
      fronts_[slot.front].waits_for = dep.on;
      return;
    }
  }
}

bool SimEngine::Runnable(const Slot& slot, const WorkSegment& segment) {
  return !segment.progress->Complete() && !Revoked(GuardsOf(segment), slot.started) &&
         DepsMet(segment.deps);
}

// True if all segments are complete. Then the stream moves on, even while the last blocks still
// leave.
bool SimEngine::Finished(const Slot& slot) {
  return std::all_of(slot.segments.begin(), slot.segments.begin() + slot.segment_count,
                     [](const WorkSegment& segment) { return segment.progress->Complete(); });
}

bool SimEngine::Retirable(const Slot& slot) {
  if (slot.running != 0) return false;
  return std::all_of(slot.segments.begin(), slot.segments.begin() + slot.segment_count,
                     [&slot](const WorkSegment& segment) {
                       return segment.progress->Complete() ||
                              Revoked(GuardsOf(segment), slot.started);
                     });
}

void SimEngine::Retire(std::uint32_t index) {
  Slot& slot = slots_[index];
  Report(slot, DeviceEvent::Kind::kRetired, 0);
  events_.Release(slot.credits);
  timers_.Drop(first_slot_timer_ + index);
  for (std::uint32_t i = 0; i < slot.segment_count; ++i) Deactivate(index, i);
  if (slot.state == State::kReady) {
    std::erase_if(ready_, [index](const Active& ready) { return ready.slot == index; });
  }
  for (std::uint32_t i = 0; i < slot.segment_count; ++i) {
    recent_[next_recent_++ % recent_.size()] = {slot.segments[i].progress, slot.lane};
  }
  LeaveFronts(slot);
  LeaveStream(index);
  if (slot.holds_queue) Exhausted(index);
  (slot.live_before == kNone ? live_first_ : slots_[slot.live_before].live_after) = slot.live_after;
  (slot.live_after == kNone ? live_last_ : slots_[slot.live_after].live_before) = slot.live_before;
  slot.state = State::kFree;
  slot.live_after = free_;
  free_ = index;
}

void SimEngine::Report(Slot& slot, DeviceEvent::Kind kind, std::uint32_t segment) {
  LAGOON_CHECK(slot.credits > 0);
  --slot.credits;
  const DeviceEvent event{kind, segment, slot.id, now_};
  // A started launch may have events under way, which this event must not overtake.
  if (by_host_ && !slot.started) {
    events_.PushFromHost(event);
  } else {
    events_.PushFromDevice(event);
  }
}

}  // namespace lagoon
