#include "device/cpu/launch_table.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace lagoon {
namespace {

// The body of a transfer; `args` is its Copy.
bool CopyChunk(const void* args, std::uint32_t block, BlockContext&) {
  const Copy& copy = *static_cast<const Copy*>(args);
  const std::size_t begin = std::size_t{block} * kCopyChunkBytes;
  const std::size_t bytes = std::min(kCopyChunkBytes, copy.bytes - begin);
  if (bytes != 0) {
    std::memcpy(static_cast<std::byte*>(copy.to) + begin,
                static_cast<const std::byte*>(copy.from) + begin, bytes);
  }
  return true;
}

}  // namespace

LaunchTable::LaunchTable(const Limits& limits, const GuardWords& guards)
    : guards_(guards), slots_(limits.launches), streams_(limits.streams), events_(limits.events) {
  order_.reserve(limits.launches);
  naming_.reserve(limits.launches);
  for (std::uint32_t i = limits.launches; i-- > 0;) {
    slots_[i].live_after = free_;
    free_ = i;
  }
}

SubmitResult LaunchTable::Add(const Launch& launch, std::span<const Body> bodies) {
  LAGOON_CHECK(!launch.segments.empty() && launch.segments.size() <= kMaxSegments);
  Slot* slot = Reserve(static_cast<std::uint32_t>(launch.segments.size()));
  if (slot == nullptr) return SubmitResult::kFull;
  slot->id = launch.id;
  slot->stream = launch.stream;
  slot->rank = launch.rank;
  for (std::size_t i = 0; i < launch.segments.size(); ++i) {
    const Segment& from = launch.segments[i];
    LAGOON_CHECK(Raw(from.kernel) < bodies.size() && from.progress != nullptr);
    WorkSegment& segment = slot->segments[i];
    segment = {.body = bodies[Raw(from.kernel)],
               .args = from.args,
               .progress = from.progress,
               .deps = from.deps,
               .guards = {},
               .max_claimants = from.max_claimants};
    std::copy(std::begin(from.guards), std::end(from.guards), segment.guards.begin());
  }
  Insert(*slot);
  return SubmitResult::kOk;
}

SubmitResult LaunchTable::Add(const Copy& copy) {
  LAGOON_CHECK(copy.progress != nullptr && copy.progress->blocks() == CopyBlocks(copy.bytes));
  Slot* slot = Reserve(1);
  if (slot == nullptr) return SubmitResult::kFull;
  slot->id = copy.id;
  slot->stream = copy.stream;
  slot->rank = copy.rank;
  slot->copy = copy;
  slot->segments[0] = {.body = CopyChunk,
                       .args = &slot->copy,
                       .progress = copy.progress,
                       .deps = copy.deps,
                       .guards = CopyGuards(copy)};
  Insert(*slot);
  return SubmitResult::kOk;
}

LaunchTable::Slot* LaunchTable::Reserve(std::uint32_t segments) {
  // One kRetired, and a kPlaced and a kComplete for each segment.
  const std::uint32_t credits = 1 + 2 * segments;
  if (free_ == kNone || !events_.Reserve(credits)) return nullptr;
  Slot& slot = slots_[free_];
  free_ = slot.live_after;
  slot.segment_count = segments;
  slot.credits = credits;
  slot.active = 0;
  slot.started = slot.eligible = slot.in_stream = false;
  slot.sequence = next_sequence_++;
  return &slot;
}

void LaunchTable::Insert(Slot& slot) {
  const std::uint32_t index = Index(slot);
  slot.live_before = live_last_;
  slot.live_after = kNone;
  (live_last_ == kNone ? live_first_ : slots_[live_last_].live_after) = index;
  live_last_ = index;
  ++live_;
  slot.watcher = Watches(slot);
  watchers_ += slot.watcher ? 1 : 0;
  if (slot.stream == kUnordered) {
    MakeEligible(index);
  } else {
    LinkStream(index);
  }
}

void LaunchTable::LinkStream(std::uint32_t index) {
  Slot& slot = slots_[index];
  LAGOON_CHECK(Raw(slot.stream) <= streams_.size());
  Stream& stream = streams_[Raw(slot.stream) - 1];
  slot.in_stream = true;
  slot.stream_before = stream.last;
  slot.stream_after = kNone;
  if (stream.last == kNone) {
    stream.first = stream.last = index;
    MakeEligible(index);
  } else {
    slots_[stream.last].stream_after = index;
    stream.last = index;
  }
}

// Returns the launch that thereby became first of the stream and eligible, or kNone.
std::uint32_t LaunchTable::UnlinkStream(std::uint32_t index) {
  Slot& slot = slots_[index];
  Stream& stream = streams_[Raw(slot.stream) - 1];
  slot.in_stream = false;
  (slot.stream_after == kNone ? stream.last : slots_[slot.stream_after].stream_before) =
      slot.stream_before;
  if (slot.stream_before != kNone) {
    slots_[slot.stream_before].stream_after = slot.stream_after;
    return kNone;
  }
  stream.first = slot.stream_after;
  if (stream.first != kNone) MakeEligible(stream.first);
  return stream.first;
}

void LaunchTable::MakeEligible(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.eligible = true;
  const Entry entry{slot.rank, slot.sequence, index, slot.segment_count, slot.segments[0].progress};
  order_.insert(std::upper_bound(order_.begin(), order_.end(), entry), entry);
}

bool LaunchTable::Watches(const Slot& slot) const {
  for (std::uint32_t i = 0; i < slot.segment_count; ++i) {
    for (const Dep& dep : slot.segments[i].deps) {
      if (dep.blocks < dep.on->blocks() && !dep.Met()) return true;
    }
    for (const Guard& guard : slot.segments[i].guards) {
      if (guard.word != nullptr && !guards_.Owns(guard.word)) return true;
    }
  }
  return false;
}

bool LaunchTable::MayRun(const Slot& slot, const WorkSegment& segment) {
  return (segment.max_claimants == 0 || segment.claimants < segment.max_claimants) &&
         segment.progress->HasUnclaimed() &&
         !Revoked(std::span<const Guard>(segment.guards), slot.started) && DepsMet(segment.deps);
}

std::optional<LaunchTable::Assignment> LaunchTable::Pick() {
  for (const Entry& entry : order_) {
    Slot& slot = slots_[entry.slot];
    for (std::uint32_t i = 0; i < slot.segment_count; ++i) {
      WorkSegment& segment = slot.segments[i];
      if (!MayRun(slot, segment)) continue;
      const std::optional<std::uint32_t> tile = segment.progress->Claim();
      if (!tile) continue;
      ++segment.claimants;
      ++slot.active;
      slot.started = true;
      if (!std::exchange(segment.placed, true)) {
        Report(slot, DeviceEvent::Kind::kPlaced, i, Now());
      }
      return Assignment{entry.slot,   i,
                        *tile,        slot.rank,
                        slot.stream,  segment.body,
                        segment.args, segment.progress,
                        segment.deps, std::span<const Guard>(segment.guards),
                        slot.id,      segment.body == CopyChunk ? &slot.copy : nullptr};
    }
  }
  return std::nullopt;
}

bool LaunchTable::Finish(const Assignment& done, Leave why, TimePoint at) {
  Slot& slot = slots_[done.slot];
  WorkSegment& segment = slot.segments[done.segment];
  const bool limited = segment.max_claimants != 0;
  --segment.claimants;
  --slot.active;
  if (why == Leave::kCompleted) Report(slot, DeviceEvent::Kind::kComplete, done.segment, at);
  if (watchers_ != 0) {
    // Whatever the reason to leave, this worker may have committed since its last SettleAll(): the
    // loop checks guards before it calls yield().
    SettleAll();
  } else if (why == Leave::kCompleted) {
    SettleNaming(done.progress);
  }
  // May move the ordered stream on even if this worker found no tile: then it saw another worker's
  // last commit. That other worker makes the change known.
  Settle(done.slot);
  return why != Leave::kExhausted || limited || slot.segment_count == 0;
}

void LaunchTable::SettleAll() {
  for (std::uint32_t index = live_first_; index != kNone;) {
    const Slot& slot = slots_[index];
    const std::uint32_t next = slot.live_after;
    // A launch that thereby becomes first of its stream was submitted later, so this loop still
    // comes to it.
    if (Retirable(slot)) {
      Retire(index);
    } else if (slot.in_stream && slot.eligible && Finished(slot)) {
      UnlinkStream(index);
    }
    index = next;
  }
}

bool LaunchTable::HasBetter(Rank than) const {
  const auto end = std::partition_point(order_.begin(), order_.end(),
                                        [than](const Entry& entry) { return entry.rank < than; });
  return HasRunnable(static_cast<std::size_t>(end - order_.begin()));
}

bool LaunchTable::HasRunnable(std::size_t entries) const {
  return std::any_of(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(entries),
                     [this](const Entry& entry) { return MayRun(slots_[entry.slot]); });
}

bool LaunchTable::NewestMayRun() const {
  return live_last_ != kNone && slots_[live_last_].eligible && MayRun(slots_[live_last_]);
}

bool LaunchTable::MayRun(const Slot& slot) {
  return std::any_of(slot.segments.begin(), slot.segments.begin() + slot.segment_count,
                     [&slot](const WorkSegment& segment) { return MayRun(slot, segment); });
}

Rank LaunchTable::best_rank() const {
  return order_.empty() ? std::numeric_limits<Rank>::max() : order_.front().rank;
}

bool LaunchTable::Names(const Entry& entry, const Slot& slot, const Progress* progress) {
  for (std::uint32_t i = 1; i < entry.segment_count; ++i) {
    if (slot.segments[i].progress == progress) return true;
  }
  return entry.progress == progress;
}

// True if all segments are complete. Then the stream moves on, even while the last workers still
// leave.
bool LaunchTable::Finished(const Slot& slot) {
  return std::all_of(slot.segments.begin(), slot.segments.begin() + slot.segment_count,
                     [](const WorkSegment& segment) { return segment.progress->Complete(); });
}

bool LaunchTable::Retirable(const Slot& slot) {
  if (slot.active != 0) return false;
  return std::all_of(slot.segments.begin(), slot.segments.begin() + slot.segment_count,
                     [&slot](const WorkSegment& segment) {
                       return segment.progress->Complete() ||
                              Revoked(std::span<const Guard>(segment.guards), slot.started);
                     });
}

// Acts on a change of one launch: retires it, or moves its stream on. Then does the same with the
// stream's next launches as each becomes first.
void LaunchTable::Settle(std::uint32_t index) {
  while (index != kNone) {
    const Slot& slot = slots_[index];
    if (slot.segment_count == 0) return;  // retired meanwhile
    if (Retirable(slot)) {
      index = Retire(index);
    } else if (slot.in_stream && slot.eligible && Finished(slot)) {
      index = UnlinkStream(index);
    } else {
      return;
    }
  }
}

// Settles other launches that name a record that became complete: relaunches whose last tiles were
// finished by blocks of the launch before.
void LaunchTable::SettleNaming(const Progress* progress) {
  naming_.clear();
  for (const Entry& entry : order_) {
    if (Names(entry, slots_[entry.slot], progress)) naming_.push_back(entry.slot);
  }
  for (const std::uint32_t index : naming_) Settle(index);
}

// Returns the launch that thereby became first of its stream, or kNone.
std::uint32_t LaunchTable::Retire(std::uint32_t index) {
  Slot& slot = slots_[index];
  Report(slot, DeviceEvent::Kind::kRetired, 0, Now());
  events_.Release(slot.credits);
  if (slot.eligible) {
    const Entry entry{slot.rank, slot.sequence, index, 0, nullptr};
    order_.erase(std::lower_bound(order_.begin(), order_.end(), entry));
  }
  const std::uint32_t first = slot.in_stream ? UnlinkStream(index) : kNone;
  watchers_ -= slot.watcher ? 1 : 0;
  (slot.live_before == kNone ? live_first_ : slots_[slot.live_before].live_after) = slot.live_after;
  (slot.live_after == kNone ? live_last_ : slots_[slot.live_after].live_before) = slot.live_before;
  --live_;
  slot.segment_count = 0;
  slot.live_after = free_;
  free_ = index;
  return first;
}

void LaunchTable::Report(Slot& slot, DeviceEvent::Kind kind, std::uint32_t segment, TimePoint at) {
  LAGOON_CHECK(slot.credits > 0);
  --slot.credits;
  events_.Push({kind, segment, slot.id, at});
  news_ = news_ || kind != DeviceEvent::Kind::kPlaced;
}

}  // namespace lagoon
