// Blocks on compute units, chunks on copy engines.

#include <algorithm>

#include "base/check.h"
#include "sim/device/engine.h"

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

std::vector<SimEngine::Active>& SimEngine::ListOf(const SimLaunch& launch) {
  return launch.kernel == nullptr ? copies_ : active_;
}

void SimEngine::Activate(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  launch.active = true;
  launch.no_room_since = kNeverTried;
  std::vector<Active>& list = ListOf(launch);
  const Active active{launch.rank, launch.turn, index};
  list.insert(std::upper_bound(list.begin(), list.end(), active), active);
  changed_ = true;
}

void SimEngine::Deactivate(std::uint32_t index) {
  SimLaunch& launch = launches_[index];
  if (!std::exchange(launch.active, false)) return;
  std::vector<Active>& list = ListOf(launch);
  const Active active{launch.rank, launch.turn, index};
  list.erase(std::lower_bound(list.begin(), list.end(), active));
}

// Placement by leftover: each kernel in turn takes all it can; the next kernel gets what is left.
// Kernels that may go beyond their shares come after all others.
void SimEngine::PlaceAll() {
  bool beyond = false;
  const auto place_all = [this](auto place) {
    for (std::size_t i = 0; i < active_.size();) {
      const Active active = active_[i];
      if (!place(active)) {
        ++i;
        continue;
      }
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
      launches_[active.launch].active = false;
      Exhausted(active.launch);
    }
  };
  place_all([&](const Active& active) {
    if (Place(active)) return true;
    beyond = beyond || launches_[active.launch].beyond_share;
    return false;
  });
  if (!beyond) return;
  FindWanted();
  place_all([this](const Active& active) {
    return launches_[active.launch].beyond_share && PlaceBeyondShare(active);
  });
}

void SimEngine::OnShareMoved() {
  share_moved_ = ++gives_;
  changed_ = true;
  Settle();
}

bool SimEngine::Place(const Active& active) {
  SimLaunch& launch = launches_[active.launch];
  if (launch.no_room_since == gives_) return false;
  if (RoomOf(launch) == 0) return launch.Spent() || !launch.progress->HasUnclaimed();
  FindCandidates(launch);
  if (PlaceOnCandidates(active)) return true;
  // Where only the number of its blocks kept the launch from starting more, units had room.
  launch.no_room_since = candidates_.empty() ? gives_ : kNeverTried;
  return false;
}

// The units with room for a block of the launch, in ascending order. A launch that found none looks
// only at the units that were given back since: the room of the others has not grown.
void SimEngine::FindCandidates(const SimLaunch& launch) {
  candidates_.clear();
  const UnitRange share = shares_.units(launch.share);
  const std::uint32_t end = std::min(share.end(), units_.size());
  const std::uint64_t since = launch.no_room_since;
  if (since == kNeverTried || since < share_moved_ || gives_ - since > given_.size()) {
    for (std::uint32_t unit = share.first; unit < end; ++unit) AddCandidate(unit, launch);
    return;
  }
  for (std::uint64_t give = since; give < gives_; ++give) {
    const std::uint32_t unit = given_[give % given_.size()];
    if (unit >= share.first && unit < end) AddCandidate(unit, launch);
  }
  if (candidates_.size() < 2) return;
  std::ranges::sort(candidates_, {}, &Candidate::unit);
  const auto same = [](const Candidate& a, const Candidate& b) { return a.unit == b.unit; };
  candidates_.erase(std::unique(candidates_.begin(), candidates_.end(), same), candidates_.end());
}

// The units for which a launch of one of their shares has a block to start, but no room.
void SimEngine::FindWanted() {
  wanted_.assign(units_.size(), false);
  for (const Active& active : active_) {
    const SimLaunch& launch = launches_[active.launch];
    if (RoomOf(launch) == 0) continue;
    const UnitRange share = shares_.units(launch.share);
    const std::uint32_t end = std::min(share.end(), units_.size());
    for (std::uint32_t unit = share.first; unit < end; ++unit) wanted_[unit] = true;
  }
}

bool SimEngine::PlaceBeyondShare(const Active& active) {
  const SimLaunch& launch = launches_[active.launch];
  candidates_.clear();
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (!wanted_[unit]) AddCandidate(unit, launch);
  }
  return PlaceOnCandidates(active);
}

void SimEngine::AddCandidate(std::uint32_t unit, const SimLaunch& launch) {
  if (units_.Fits(unit, *launch.kernel)) candidates_.push_back({unit, units_.threads(unit)});
}

std::uint32_t SimEngine::RoomOf(const SimLaunch& launch) {
  const std::uint32_t at_once =
      launch.max_claimants == 0 ? ~0u : launch.max_claimants - launch.running;
  return launch.most_blocks == 0 ? at_once : std::min(at_once, launch.most_blocks - launch.placed);
}

bool SimEngine::PlaceOnCandidates(const Active& active) {
  const SimLaunch& launch = launches_[active.launch];
  std::uint32_t room = RoomOf(launch);
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
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return !units_.Fits(candidate.unit, *launch.kernel);
    });
  }
  CloseGroup();
  return !left || launch.Spent() || !launch.progress->HasUnclaimed();
}

bool SimEngine::PlaceOn(std::uint32_t unit, const Active& active) {
  SimLaunch& launch = launches_[active.launch];
  const std::optional<std::uint32_t> tile = launch.progress->Claim();
  if (!tile) return false;
  const SimKernel& kernel = *launch.kernel;
  units_.Ask(kernel, launch.running, launch.running + 1);
  ++launch.running;
  if (!std::exchange(launch.started, true)) Report(launch, DeviceEvent::Kind::kPlaced);
  if (launch.Tells(++launch.placed)) Tell(launch);
  BlockGroup& group = GroupFor(active, BlockTime(launch, *tile).count() * kFullSpeed);
  const std::uint32_t slot = group.count++;
  group.tiles[slot] = *tile;
  group.units[slot] = static_cast<std::uint16_t>(unit);
  group.seats[slot] = static_cast<std::uint8_t>(units_.Take(unit, kernel, {open_group_, slot}));
  return true;
}

Nanoseconds SimEngine::BlockTime(const SimLaunch& launch, std::uint32_t tile) const {
  const SimKernel& kernel = *launch.kernel;
  if (kernel.time_spread == 0) return kernel.time;
  // 53 bits make a double in [0, 1).
  const auto bits = static_cast<double>(Hash(options_.seed, launch.sequence, tile) >> 11);
  const double within = bits * 0x1p-52 - 1;
  const double time = static_cast<double>(kernel.time.count()) * (1 + kernel.time_spread * within);
  return Nanoseconds(std::max<std::int64_t>(1, static_cast<std::int64_t>(time)));
}

// Blocks begin at full speed. RepriceAll() then slows down those that have company.
BlockGroup& SimEngine::GroupFor(const Active& active, std::int64_t work) {
  if (open_group_ != kNoIndex) {
    BlockGroup& open = groups_[open_group_];
    if (open.work == work && open.count < BlockGroup::kMaxBlocks) return open;
    CloseGroup();
  }
  open_group_ = groups_.Take(launches_[active.launch], active.launch, now_, work);
  return groups_[open_group_];
}

void SimEngine::CloseGroup() {
  if (open_group_ == kNoIndex) return;
  const BlockGroup& group = groups_[open_group_];
  timers_.Set(open_group_, group.end());
  Observe(group, /*ended=*/false, /*committed=*/false);
  open_group_ = kNoIndex;
}

void SimEngine::EndGroup(std::uint32_t index) {
  const BlockGroup& group = groups_[index];
  const std::uint32_t launch_index = group.launch;
  SimLaunch& launch = launches_[launch_index];
  Progress* const progress = launch.progress;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const std::uint32_t seat = group.seats[i];
    const std::optional<Resident> moved = units_.Give(group.units[i], *launch.kernel, seat);
    if (moved) groups_[moved->group].seats[moved->slot] = static_cast<std::uint8_t>(seat);
    given_[gives_++ % given_.size()] = group.units[i];
  }
  changed_ = true;
  blocks_ended_ += group.count;
  units_.Ask(*launch.kernel, launch.running, launch.running - group.count);
  launch.running -= group.count;
  const bool leaves = group.leaves;
  const bool killed = group.killed;
  Observe(group, /*ended=*/true, !leaves);
  bool complete = false;
  if (!leaves) {
    complete = CommitGroup(group);
  } else if (!killed) {
    for (std::uint32_t i = 0; i < group.count; ++i) progress->Unclaim(group.tiles[i]);
  }
  if (complete) Report(launch, DeviceEvent::Kind::kComplete);
  groups_.Free(launch, index);
  if (!leaves) {
    AfterDone(progress, complete);
  } else {
    AfterUnclaim(progress);
  }
  Look(launch_index);
}

// Sets the speeds of blocks on units where a block has come or gone. A group whose blocks then
// have different speeds is split.
void SimEngine::RepriceAll() {
  ++pass_;
  while (const std::optional<std::uint32_t> unit = units_.TakeDirty()) {
    const std::size_t residents = units_.residents(*unit).size();
    for (std::uint32_t seat = 0; seat < residents; ++seat) Reprice(*unit, seat);
  }
}

void SimEngine::Reprice(std::uint32_t unit, std::uint32_t seat) {
  const Resident resident = units_.residents(unit)[seat];
  BlockGroup& group = groups_[resident.group];
  const std::int64_t speed = units_.enough_bandwidth()
                                 ? units_.SpeedOfAll(unit)
                                 : units_.Speed(unit, *launches_[group.launch].kernel);
  if (group.killed || group.speed == speed) return;
  const bool joins =
      group.split_pass == pass_ && group.split != kNoIndex && groups_[group.split].speed == speed;
  if (group.count == 1 && !joins) {
    group.Continue(now_, speed);
    timers_.Set(resident.group, group.end());
    return;
  }
  SimLaunch& launch = launches_[group.launch];
  if (!joins) {
    group.split = groups_.Split(launch, resident.group);
    group.split_pass = pass_;
    groups_[group.split].Continue(now_, speed);
    timers_.Set(group.split, groups_[group.split].end());
  }
  MoveBlock(resident, group.split);
  if (group.count > 0) return;
  timers_.Drop(resident.group);
  groups_.Free(launch, resident.group);
}

// Moves a block to another group, and the last block of its group to its place.
void SimEngine::MoveBlock(Resident from, std::uint32_t to) {
  BlockGroup& source = groups_[from.group];
  const auto put = [this](const BlockGroup& old, std::uint32_t slot, Resident place) {
    BlockGroup& group = groups_[place.group];
    group.tiles[place.slot] = old.tiles[slot];
    group.units[place.slot] = old.units[slot];
    group.seats[place.slot] = old.seats[slot];
    units_.Move(group.units[place.slot], group.seats[place.slot], place);
  };
  put(source, from.slot, {to, groups_[to].count++});
  const std::uint32_t last = --source.count;
  if (last != from.slot) put(source, last, from);
}

// Counts the blocks of the group as done. Returns whether the kernel is complete now.
bool SimEngine::CommitGroup(const BlockGroup& group) {
  SimLaunch& launch = launches_[group.launch];
  bool complete = false, tell = false;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    complete = launch.progress->Commit();
    tell = launch.Tells(++launch.done) || tell;
  }
  if (tell && !complete) Tell(launch);
  return complete;
}

void SimEngine::AfterDone(const Progress* progress, bool complete) {
  for (const std::uint32_t index : fronts_.AfterDone(progress, complete)) Look(index);
}

void SimEngine::AfterUnclaim(const Progress* progress) {
  for (const std::uint32_t index : fronts_.AfterUnclaim(progress)) Look(index);
}

void SimEngine::PumpCopies() {
  for (std::uint32_t i = 0; i < copy_engines_.size() && !copies_.empty(); ++i) {
    if (copy_engines_[i].launch == kNoIndex) StartChunk(copy_engines_[i], i);
  }
}

// Starts a chunk of the best copy that no other engine works on.
void SimEngine::StartChunk(CopyEngine& engine, std::uint32_t engine_index) {
  for (std::size_t i = 0; i < copies_.size();) {
    const std::uint32_t index = copies_[i].launch;
    SimLaunch& launch = launches_[index];
    if (launch.running != 0) {
      ++i;
      continue;
    }
    const std::optional<std::uint32_t> tile = launch.progress->Claim();
    if (!tile) {
      Deactivate(index);
      Exhausted(index);
      continue;
    }
    engine = {index, *tile, now_};
    ++launch.running;
    const std::size_t begin = std::size_t{*tile} * kCopyChunkBytes;
    const std::size_t bytes = std::min(kCopyChunkBytes, launch.copy.bytes - begin);
    Nanoseconds time(static_cast<std::int64_t>(bytes) * 1000 /
                     options_.constants.copy_bytes_per_us);
    if (!std::exchange(launch.started, true)) {
      time += Nanoseconds(options_.constants.copy_latency_ns);
      Report(launch, DeviceEvent::Kind::kPlaced);
    }
    timers_.Set(first_copy_timer_ + engine_index, now_ + time);
    if (observer_ != nullptr) observer_->OnPlaced(ChunkOf(engine_index));
    return;
  }
}

void SimEngine::EndChunk(std::uint32_t engine_index) {
  if (observer_ != nullptr) observer_->OnEnded(ChunkOf(engine_index), now_, true);
  CopyEngine& engine = copy_engines_[engine_index];
  const std::uint32_t index = std::exchange(engine.launch, kNoIndex);
  SimLaunch& launch = launches_[index];
  --launch.running;
  ++blocks_ended_;
  changed_ = true;
  const Progress* const progress = launch.progress;
  const bool complete = launch.progress->Commit();
  if (complete) Report(launch, DeviceEvent::Kind::kComplete);
  AfterDone(progress, complete);
  Look(index);
}

DeviceBlock SimEngine::BlockOf(const SimLaunch& launch) {
  DeviceBlock block{.launch = launch.id, .args = launch.args};
  if (launch.is_copy) {
    block.copy = &launch.copy;
  } else {
    block.body = launch.kernel->body;
  }
  return block;
}

DeviceBlock SimEngine::ChunkOf(std::uint32_t engine_index) const {
  const CopyEngine& engine = copy_engines_[engine_index];
  DeviceBlock block = BlockOf(launches_[engine.launch]);
  block.tile = engine.tile;
  block.unit = units_.size() + engine_index;
  block.placed = engine.placed;
  return block;
}

void SimEngine::Observe(const BlockGroup& group, bool ended, bool committed) {
  if (observer_ == nullptr) return;
  DeviceBlock block = BlockOf(launches_[group.launch]);
  block.placed = group.start;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    block.tile = group.tiles[i];
    block.unit = group.units[i];
    ended ? observer_->OnEnded(block, now_, committed) : observer_->OnPlaced(block);
  }
}

}  // namespace lagoon
