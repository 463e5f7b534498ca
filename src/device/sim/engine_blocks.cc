// Blocks on compute units, chunks on copy engines.

#include <algorithm>

#include "base/check.h"
#include "device/sim/engine.h"

namespace lagoon {
namespace {

// A well-mixed number from three (the finaliser of splitmix64, twice).
std::uint64_t Hash(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  const auto mix = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  return mix(mix(seed ^ a) + b);
}

}  // namespace

std::vector<SimEngine::Active>& SimEngine::ListOf(const Slot& slot) {
  return slot.kernel == nullptr ? copies_ : active_;
}

void SimEngine::Activate(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.active = true;
  slot.no_room_since = ~std::uint64_t{0};
  std::vector<Active>& list = ListOf(slot);
  const Active active{slot.rank, slot.turn, index};
  list.insert(std::upper_bound(list.begin(), list.end(), active), active);
  changed_ = true;
}

void SimEngine::Deactivate(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!std::exchange(slot.active, false)) return;
  std::vector<Active>& list = ListOf(slot);
  const Active active{slot.rank, slot.turn, index};
  list.erase(std::lower_bound(list.begin(), list.end(), active));
}

// Placement by leftover: each kernel in turn takes all it can; the next kernel gets what is left.
void SimEngine::PlaceAll() {
  for (std::size_t i = 0; i < active_.size();) {
    const Active active = active_[i];
    if (!Place(active)) {
      ++i;
      continue;
    }
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    slots_[active.slot].active = false;
    Exhausted(active.slot);
  }
}

bool SimEngine::Place(const Active& active) {
  Slot& slot = slots_[active.slot];
  if (slot.no_room_since == gives_) return false;
  const SimKernel& kernel = *slot.kernel;
  std::uint32_t room = slot.max_claimants == 0 ? ~0u : slot.max_claimants - slot.running;
  candidates_.clear();
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (units_.Fits(unit, kernel)) candidates_.push_back({unit, units_.threads(unit)});
  }
  bool left = true;
  while (left && room > 0 && !candidates_.empty()) {
    // One block on each of the emptiest units, then again.
    std::uint32_t least = ~0u;
    for (const Candidate& candidate : candidates_) least = std::min(least, candidate.threads);
    for (Candidate& candidate : candidates_) {
      if (candidate.threads != least) continue;
      left = PlaceOn(candidate.unit, active);
      if (!left || --room == 0) break;
      candidate.threads = units_.threads(candidate.unit);
    }
    std::erase_if(candidates_,
                  [&](const Candidate& candidate) { return !units_.Fits(candidate.unit, kernel); });
  }
  CloseGroup();
  if (!left || !slot.progress->HasUnclaimed()) return true;
  slot.no_room_since = gives_;
  return false;
}

bool SimEngine::PlaceOn(std::uint32_t unit, const Active& active) {
  Slot& slot = slots_[active.slot];
  const std::optional<std::uint32_t> tile = slot.progress->Claim();
  if (!tile) return false;
  ++slot.running;
  const SimKernel& kernel = *slot.kernel;
  const double own = Units::Bandwidth(kernel) * slot.running;
  const Nanoseconds time = units_.Slowed(BlockTime(slot, *tile), unit, kernel, active.slot, own);
  units_.Take(unit, kernel, active.slot);
  if (!std::exchange(slot.started, true)) Report(slot, DeviceEvent::Kind::kPlaced);
  Group& group = GroupFor(active, now_ + time);
  group.tiles[group.count] = *tile;
  group.units[group.count++] = static_cast<std::uint16_t>(unit);
  return true;
}

Nanoseconds SimEngine::BlockTime(const Slot& slot, std::uint32_t tile) const {
  const SimKernel& kernel = *slot.kernel;
  if (kernel.time_spread == 0) return kernel.time;
  // 53 bits make a double in [0, 1).
  const auto bits = static_cast<double>(Hash(options_.seed, slot.sequence, tile) >> 11);
  const double within = bits * 0x1p-52 - 1;
  const double time = static_cast<double>(kernel.time.count()) * (1 + kernel.time_spread * within);
  return Nanoseconds(std::max<std::int64_t>(1, static_cast<std::int64_t>(time)));
}

SimEngine::Group& SimEngine::GroupFor(const Active& active, TimePoint end) {
  if (open_group_ != kNoIndex) {
    Group& open = groups_[open_group_];
    if (open.end == end && open.count < kGroupBlocks) return open;
    CloseGroup();
  }
  open_group_ = free_group_;
  Group& group = groups_[open_group_];
  free_group_ = group.after;
  Slot& slot = slots_[active.slot];
  group.slot = active.slot;
  group.count = 0;
  group.leaves = group.killed = false;
  group.start = now_;
  group.end = end;
  group.before = kNoIndex;
  group.after = slot.groups;
  if (slot.groups != kNoIndex) groups_[slot.groups].before = open_group_;
  slot.groups = open_group_;
  return group;
}

void SimEngine::CloseGroup() {
  if (open_group_ == kNoIndex) return;
  const Group& group = groups_[open_group_];
  timers_.Set(open_group_, group.end);
  Observe(group, /*ended=*/false, /*committed=*/false);
  open_group_ = kNoIndex;
}

void SimEngine::FreeGroup(std::uint32_t index) {
  Group& group = groups_[index];
  Slot& slot = slots_[group.slot];
  (group.before == kNoIndex ? slot.groups : groups_[group.before].after) = group.after;
  if (group.after != kNoIndex) groups_[group.after].before = group.before;
  group.after = free_group_;
  free_group_ = index;
}

void SimEngine::EndGroup(std::uint32_t index) {
  const Group& group = groups_[index];
  const std::uint32_t slot_index = group.slot;
  Slot& slot = slots_[slot_index];
  Progress* const progress = slot.progress;
  for (std::uint32_t i = 0; i < group.count; ++i) units_.Give(group.units[i], *slot.kernel);
  ++gives_;
  changed_ = true;
  blocks_ended_ += group.count;
  slot.running -= group.count;
  const bool leaves = group.leaves;
  const bool killed = group.killed;
  Observe(group, /*ended=*/true, !leaves);
  bool complete = false;
  if (!leaves) {
    complete = CommitGroup(group);
  } else if (!killed) {
    for (std::uint32_t i = 0; i < group.count; ++i) progress->Unclaim(group.tiles[i]);
  }
  if (complete) Report(slot, DeviceEvent::Kind::kComplete);
  FreeGroup(index);
  if (!leaves) {
    AfterDone(progress, complete);
  } else {
    AfterUnclaim(progress);
  }
  Look(slot_index);
}

// True: the group completed the kernel.
bool SimEngine::CommitGroup(const Group& group) {
  bool complete = false;
  for (std::uint32_t i = 0; i < group.count; ++i) complete = slots_[group.slot].progress->Commit();
  return complete;
}

// Looks at the other launches that the new done count of `progress` concerns.
void SimEngine::AfterDone(const Progress* progress, bool complete) {
  if (!complete && watchers_ == 0) return;
  hits_.clear();
  for (const Front& front : fronts_) {
    const bool named = complete && (front.names == progress || front.waits_for == progress);
    if (named || front.look_always) hits_.push_back(front.slot);
  }
  for (const std::uint32_t hit : hits_) Look(hit);
}

// A relaunch may have found no tile before these tiles came back.
void SimEngine::AfterUnclaim(const Progress* progress) {
  hits_.clear();
  for (const Front& front : fronts_) {
    if (front.names == progress || front.look_always) hits_.push_back(front.slot);
  }
  for (const std::uint32_t hit : hits_) Look(hit);
}

void SimEngine::PumpCopies() {
  for (std::uint32_t i = 0; i < copy_engines_.size() && !copies_.empty(); ++i) {
    if (copy_engines_[i].slot == kNoIndex) StartChunk(copy_engines_[i], i);
  }
}

// Starts a chunk of the best copy that no other engine works on.
void SimEngine::StartChunk(CopyEngine& engine, std::uint32_t engine_index) {
  for (std::size_t i = 0; i < copies_.size();) {
    const std::uint32_t index = copies_[i].slot;
    Slot& slot = slots_[index];
    if (slot.running != 0) {
      ++i;
      continue;
    }
    const std::optional<std::uint32_t> tile = slot.progress->Claim();
    if (!tile) {
      Deactivate(index);
      Exhausted(index);
      continue;
    }
    engine = {index, *tile, now_};
    ++slot.running;
    const std::size_t begin = std::size_t{*tile} * kCopyChunkBytes;
    const std::size_t bytes = std::min(kCopyChunkBytes, slot.copy.bytes - begin);
    Nanoseconds time(static_cast<std::int64_t>(bytes) * 1000 /
                     options_.constants.copy_bytes_per_us);
    if (!std::exchange(slot.started, true)) {
      time += Nanoseconds(options_.constants.copy_latency_ns);
      Report(slot, DeviceEvent::Kind::kPlaced);
    }
    timers_.Set(first_copy_timer_ + engine_index, now_ + time);
    if (observer_ != nullptr) observer_->OnPlaced(ChunkOf(engine_index));
    return;
  }
}

void SimEngine::EndChunk(std::uint32_t engine_index) {
  if (observer_ != nullptr) observer_->OnEnded(ChunkOf(engine_index), now_, true);
  CopyEngine& engine = copy_engines_[engine_index];
  const std::uint32_t index = std::exchange(engine.slot, kNoIndex);
  Slot& slot = slots_[index];
  --slot.running;
  ++blocks_ended_;
  changed_ = true;
  const Progress* const progress = slot.progress;
  const bool complete = slot.progress->Commit();
  if (complete) Report(slot, DeviceEvent::Kind::kComplete);
  AfterDone(progress, complete);
  Look(index);
}

DeviceBlock SimEngine::BlockOf(const Slot& slot) {
  DeviceBlock block{.launch = slot.id, .args = slot.args};
  if (slot.is_copy) {
    block.copy = &slot.copy;
  } else {
    block.body = slot.kernel->body;
  }
  return block;
}

DeviceBlock SimEngine::ChunkOf(std::uint32_t engine_index) const {
  const CopyEngine& engine = copy_engines_[engine_index];
  DeviceBlock block = BlockOf(slots_[engine.slot]);
  block.tile = engine.tile;
  block.unit = units_.size() + engine_index;
  block.placed = engine.placed;
  return block;
}

void SimEngine::Observe(const Group& group, bool ended, bool committed) {
  if (observer_ == nullptr) return;
  DeviceBlock block = BlockOf(slots_[group.slot]);
  block.placed = group.start;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    block.tile = group.tiles[i];
    block.unit = group.units[i];
    ended ? observer_->OnEnded(block, now_, committed) : observer_->OnPlaced(block);
  }
}

}  // namespace lagoon
