// How running and queued launches leave.

#include <algorithm>
#include <utility>

#include "device/sim/engine.h"

namespace lagoon {

void SimEngine::Revoke(TimePoint visible) {
  by_host_ = true;
  kills_ = false;
  std::fill(evictions_.begin(), evictions_.end(), 0);
  for (std::uint32_t index = live_first_; index != kNone;) {
    Slot& slot = slots_[index];
    const std::uint32_t next = slot.live_after;
    const bool revoked = RevokeSegments(index, visible);
    if (revoked && !std::exchange(slot.evicted, true) && slot.lane != kNone) {
      ++evictions_[slot.lane];
    }
    if (Retirable(slot)) Retire(index);
    index = next;
  }
  // Each queue gets past its revoked kernels one by one, all queues at the same time. Until then
  // the front end starts nothing (REEF 4.2: "lazy eviction"). Kills come before that.
  const std::uint32_t most = *std::max_element(evictions_.begin(), evictions_.end());
  if (most > 0) {
    const Nanoseconds kill(kills_ ? options_.constants.kill_ns : 0);
    const Nanoseconds evict = most * Nanoseconds(options_.constants.evict_ns);
    evicted_at_ = std::max(evicted_at_, visible + kill + evict);
  }
  Settle();
  by_host_ = false;
}

// Makes the blocks of revoked segments leave. True: there was such a segment.
bool SimEngine::RevokeSegments(std::uint32_t index, TimePoint visible) {
  Slot& slot = slots_[index];
  bool any = false;
  for (std::uint32_t i = 0; i < slot.segment_count; ++i) {
    WorkSegment& work = slot.segments[i];
    if (work.kernel == nullptr || work.progress->Complete() ||
        !Revoked(GuardsOf(work), slot.started)) {
      continue;
    }
    any = true;
    Deactivate(index, i);
    const bool by_word = std::any_of(work.guards.begin(), work.guards.end(), [&](const Guard& g) {
      return g.Raised() && guards_.Owns(g.word);
    });
    if (options_.abort == SimAbort::kKill && by_word) {
      Kill(index, work, visible);
      continue;
    }
    for (std::uint32_t group = work.groups; group != kNone; group = groups_[group].after) {
      LeaveAt(group, *work.kernel, visible);
    }
  }
  const auto end = slot.segments.begin() + slot.segment_count;
  if (any && std::none_of(slot.segments.begin(), end,
                          [](const WorkSegment& segment) { return segment.active; })) {
    if (slot.state == State::kStarted) Exhausted(index);
  }
  return any;
}

// Ends the group at its first check that can see the guard. A group without another check commits.
void SimEngine::LeaveAt(std::uint32_t index, const SimKernel& kernel, TimePoint visible) {
  Group& group = groups_[index];
  if (group.leaves) return;
  const Nanoseconds interval = kernel.check_interval;
  const Nanoseconds since = std::max(visible - group.start, Nanoseconds(1));
  const TimePoint check = group.start + (since + interval - Nanoseconds(1)) / interval * interval;
  if (check >= group.end) return;
  group.leaves = true;
  group.end = check;
  timers_.Set(index, check);
}

// REEF 4.3: all blocks die where they are, and no result of an incomplete kernel is kept.
void SimEngine::Kill(std::uint32_t index, WorkSegment& segment, TimePoint visible) {
  if (std::exchange(segment.killed, true)) return;
  kills_ = kills_ || segment.groups != kNone;
  for (std::uint32_t i = segment.groups; i != kNone; i = groups_[i].after) {
    Group& group = groups_[i];
    if (!group.leaves) {
      group.leaves = true;
      group.end = visible + Nanoseconds(options_.constants.kill_ns);
      timers_.Set(i, group.end);
    }
    group.killed = true;
    for (std::uint32_t tile = 0; tile < group.count; ++tile) {
      segment.progress->Unclaim(group.tiles[tile]);
    }
  }
  if (!OthersRun(index, segment.progress)) segment.progress->Reset();
}

// True if blocks of another launch hold tiles of `progress`.
bool SimEngine::OthersRun(std::uint32_t index, const Progress* progress) const {
  const auto holds = [&](const WorkSegment& work) {
    if (work.progress != progress) return false;
    for (std::uint32_t i = work.groups; i != kNone; i = groups_[i].after) {
      if (!groups_[i].killed) return true;
    }
    return false;
  };
  for (std::uint32_t other = live_first_; other != kNone; other = slots_[other].live_after) {
    const Slot& slot = slots_[other];
    if (other == index) continue;
    if (std::any_of(slot.segments.begin(), slot.segments.begin() + slot.segment_count, holds)) {
      return true;
    }
  }
  return false;
}

}  // namespace lagoon
