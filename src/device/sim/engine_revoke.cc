// How running and queued launches leave.

#include <algorithm>
#include <utility>

#include "device/sim/engine.h"

namespace lagoon {

void SimEngine::Revoke(TimePoint visible) {
  by_host_ = true;
  kills_ = false;
  std::fill(evictions_.begin(), evictions_.end(), 0);
  for (std::uint32_t index = slots_.oldest(); index != kNoIndex;) {
    Slot& slot = slots_[index];
    const std::uint32_t next = slot.live_after;
    const bool revoked = MakeLeave(index, visible);
    if (revoked && !std::exchange(slot.evicted, true) && slot.lane != kNoIndex) {
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

// Makes the blocks of a revoked kernel leave. True: it is one.
bool SimEngine::MakeLeave(std::uint32_t index, TimePoint visible) {
  Slot& slot = slots_[index];
  if (slot.is_copy || slot.Complete() || !slot.Left()) return false;
  Deactivate(index);
  const bool by_word = std::any_of(slot.guards.begin(), slot.guards.end(), [&](const Guard& guard) {
    return guard.Raised() && guards_.Owns(guard.word);
  });
  if (options_.abort == SimAbort::kKill && by_word) {
    Kill(index, visible);
  } else {
    for (std::uint32_t group = slot.groups; group != kNoIndex; group = groups_[group].after) {
      LeaveAt(group, *slot.kernel, visible);
    }
  }
  if (slot.state == State::kStarted) Exhausted(index);
  return true;
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
void SimEngine::Kill(std::uint32_t index, TimePoint visible) {
  Slot& slot = slots_[index];
  if (std::exchange(slot.killed, true)) return;
  kills_ = kills_ || slot.groups != kNoIndex;
  for (std::uint32_t i = slot.groups; i != kNoIndex; i = groups_[i].after) {
    Group& group = groups_[i];
    if (!group.leaves) {
      group.leaves = true;
      group.end = visible + Nanoseconds(options_.constants.kill_ns);
      timers_.Set(i, group.end);
    }
    group.killed = true;
    for (std::uint32_t tile = 0; tile < group.count; ++tile) {
      slot.progress->Unclaim(group.tiles[tile]);
    }
  }
  if (!OthersRun(index, slot.progress)) slot.progress->Reset();
}

// True if blocks of another launch hold tiles of `progress`.
bool SimEngine::OthersRun(std::uint32_t index, const Progress* progress) const {
  for (std::uint32_t other = slots_.oldest(); other != kNoIndex; other = slots_[other].live_after) {
    if (other == index || slots_[other].progress != progress) continue;
    for (std::uint32_t i = slots_[other].groups; i != kNoIndex; i = groups_[i].after) {
      if (!groups_[i].killed) return true;
    }
  }
  return false;
}

}  // namespace lagoon
