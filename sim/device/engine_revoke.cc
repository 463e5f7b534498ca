// How running and queued launches leave.

#include <algorithm>
#include <utility>

#include "sim/device/engine.h"

namespace lagoon {

void SimEngine::Revoke(TimePoint visible) {
  by_host_ = true;
  kills_ = resets_ = false;
  queues_.ResetEvictions();
  for (std::uint32_t index = launches_.oldest(); index != kNoIndex;) {
    SimLaunch& launch = launches_[index];
    const std::uint32_t next = launch.live_after;
    if (MakeLeave(index, visible)) queues_.Evict(launch);
    if (Retirable(launch)) Retire(index);
    index = next;
  }
  // Each queue gets past its revoked kernels one by one, all queues at the same time. Until then
  // the front end starts nothing (REEF 4.2: "lazy eviction"). Kills come before that.
  // What the runtime still holds on the host is reset there (REEF 4.2). Without a reset the kernels
  // that it holds come to the device all the same.
  std::int64_t most = queues_.most_evictions();
  const std::int64_t bound = options_.constants.runtime_queue;
  if (resets_ && bound > 0) most = std::min(most, bound);
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
  SimLaunch& launch = launches_[index];
  if (launch.is_copy || launch.Complete() || !launch.Left()) return false;
  Deactivate(index);
  bool by_word = false;
  for (const Guard& guard : launch.guards) {
    if (!guard.Raised() || !guards_.Owns(guard.word)) continue;
    by_word = true;
    resets_ = resets_ || !guard.only_before_start;
  }
  if (options_.abort == SimAbort::kKill && by_word) {
    Kill(index, visible);
  } else {
    for (std::uint32_t group = launch.groups; group != kNoIndex; group = groups_[group].after) {
      LeaveAt(group, *launch.kernel, visible);
    }
  }
  if (launch.state == State::kStarted) Exhausted(index);
  return true;
}

// Ends the group at its first check that can see the guard: a block checks after each interval of
// work. A group without another check commits.
void SimEngine::LeaveAt(std::uint32_t index, const SimKernel& kernel, TimePoint visible) {
  BlockGroup& group = groups_[index];
  if (group.leaves) return;
  const std::int64_t interval = kernel.check_interval.count() * kFullSpeed;
  const std::int64_t before = group.work - group.left;  // at group.since
  const std::int64_t passed = std::max<std::int64_t>(0, (visible - group.since).count());
  const std::int64_t seen = std::max<std::int64_t>(1, before + passed * group.speed);
  const std::int64_t check = (seen + interval - 1) / interval * interval;
  if (check >= group.work) return;
  group.leaves = true;
  group.left = check - before;
  timers_.Set(index, group.end());
}

// REEF 4.3: all blocks die where they are, and no result of an incomplete kernel is kept.
void SimEngine::Kill(std::uint32_t index, TimePoint visible) {
  SimLaunch& launch = launches_[index];
  if (std::exchange(launch.killed, true)) return;
  kills_ = kills_ || launch.groups != kNoIndex;
  for (std::uint32_t i = launch.groups; i != kNoIndex; i = groups_[i].after) {
    BlockGroup& group = groups_[i];
    if (!group.leaves) {
      group.leaves = true;
      timers_.Set(i, visible + Nanoseconds(options_.constants.kill_ns));
    }
    group.killed = true;
    for (std::uint32_t tile = 0; tile < group.count; ++tile) {
      launch.progress->Unclaim(group.tiles[tile]);
    }
  }
  if (!OthersRun(index, launch.progress)) launch.progress->Reset();
}

// True if blocks of another launch hold tiles of `progress`.
bool SimEngine::OthersRun(std::uint32_t index, const Progress* progress) const {
  for (std::uint32_t other = launches_.oldest(); other != kNoIndex;
       other = launches_[other].live_after) {
    if (other == index || launches_[other].progress != progress) continue;
    for (std::uint32_t i = launches_[other].groups; i != kNoIndex; i = groups_[i].after) {
      if (!groups_[i].killed) return true;
    }
  }
  return false;
}

}  // namespace lagoon
