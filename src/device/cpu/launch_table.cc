#include "device/cpu/launch_table.h"

#include <algorithm>
#include <limits>

#include "device/host/copy_range.h"

namespace lagoon {
namespace {

// The body of a transfer; `args` is its Copy.
bool CopyChunk(const void* args, std::uint32_t block, BlockContext&) {
  const Copy& copy = *static_cast<const Copy*>(args);
  const std::size_t begin = std::size_t{block} * kCopyChunkBytes;
  CopyRange(copy, begin, std::min(kCopyChunkBytes, copy.bytes - begin));
  return true;
}

}  // namespace

LaunchTable::LaunchTable(const Limits& limits, const GuardWords& guards, const Shares& shares)
    : guards_(guards),
      shares_(shares),
      slots_(limits.launches, limits.streams),
      workers_(limits.workers),
      events_(limits.events),
      told_(limits.launches),
      lent_(limits.units, kNoUnit) {
  LAGOON_CHECK(limits.units <= kMostUnits && limits.workers > 0);
  order_.reserve(limits.launches);
  naming_.reserve(limits.launches);
}

SubmitResult LaunchTable::Add(const Launch& launch, Body body) {
  return Insert(slots_.Take(launch, events_), body);
}

SubmitResult LaunchTable::Add(const Copy& copy) {
  Slot* const slot = slots_.Take(copy, events_);
  if (slot != nullptr) slot->args = &slot->copy;
  return Insert(slot, CopyChunk);
}

SubmitResult LaunchTable::Insert(Slot* slot, Body body) {
  if (slot == nullptr) return SubmitResult::kFull;
  slot->body = body;
  if (slot->step != 0) {
    told_[slots_.IndexOf(*slot)].Reset(slot->step, slot->progress->blocks());
  }
  slots_.Link(*slot);
  slot->watcher = slot->WatchesCount(guards_);
  watchers_ += slot->watcher ? 1 : 0;
  bound_ += slot->share != kAllUnits ? 1 : 0;
  if (slot->stream == kUnordered || slots_.LinkStream(*slot)) MakeEligible(slots_.IndexOf(*slot));
  return SubmitResult::kOk;
}

// Returns the launch that thereby became first of the stream and eligible, or kNoIndex.
std::uint32_t LaunchTable::UnlinkStream(Slot& slot) {
  const std::uint32_t first = slots_.UnlinkStream(slot);
  if (first != kNoIndex) MakeEligible(first);
  return first;
}

void LaunchTable::MakeEligible(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.eligible = true;
  const Entry entry{slot.rank,         slot.sequence,   index,        slot.share,
                    slot.beyond_share, slot.help.level, slot.progress};
  order_.insert(std::upper_bound(order_.begin(), order_.end(), entry), entry);
}

bool LaunchTable::MayRun(const Slot& slot) {
  return (slot.max_claimants == 0 || slot.claimants < slot.max_claimants) &&
         slot.progress->HasUnclaimed() && !slot.Left() && DepsMet(slot.deps);
}

std::optional<LaunchTable::Assignment> LaunchTable::Pick(std::uint32_t unit, std::uint8_t level) {
  bool visitors = false;  // launches of other shares that may use this unit
  for (const Entry& entry : order_) {
    if (entry.level > level) continue;
    if (!shares_.Has(entry.share, unit)) {
      visitors = visitors || entry.beyond_share;
    } else if (std::optional<Assignment> claimed = Claim(entry, unit)) {
      return claimed;
    }
  }
  if (!visitors) return std::nullopt;
  for (const Entry& entry : order_) {
    if (!entry.beyond_share || entry.level > level || shares_.Has(entry.share, unit)) continue;
    if (std::optional<Assignment> claimed = Claim(entry, unit)) return claimed;
  }
  return std::nullopt;
}

// The number of the loan lies above the unit, so that a launch does not take a later loan of the
// unit for its helper. It is never kNoUnit.
BorrowedUnit LaunchTable::Lend(std::uint32_t unit) {
  loans_ = loans_ % (~std::uint32_t{0} / kMostUnits) + 1;
  return lent_[unit] = BorrowedUnit{loans_ * kMostUnits + unit};
}

// Whether the thread that waits for the launch has a unit that may run it.
bool LaunchTable::HasHelper(const Slot& slot) const {
  if (slot.help.helper == kNoUnit || lent_.empty()) return false;
  const std::uint32_t unit = UnitOf(slot.help.helper);
  return lent_[unit] == slot.help.helper && (slot.beyond_share || shares_.Has(slot.share, unit));
}

std::uint64_t LaunchTable::WantedByNewest(std::uint64_t tiles) const {
  const std::uint32_t newest = slots_.newest();
  if (newest == kNoIndex || !HasHelper(slots_[newest])) return tiles;
  return slots_[newest].help.alone ? 0 : tiles - 1;
}

std::optional<LaunchTable::Assignment> LaunchTable::Claim(const Entry& entry, std::uint32_t unit) {
  Slot& slot = slots_[entry.slot];
  if (!MayRun(slot)) return std::nullopt;
  const std::uint32_t from = slot.progress->FirstOf(unit, workers_);
  const std::optional<std::uint32_t> tile = slot.progress->Claim(from);
  if (!tile) return std::nullopt;
  ++slot.claimants;
  if (!std::exchange(slot.started, true)) Report(slot, DeviceEvent::Kind::kPlaced, Now());
  return Assignment{.slot = entry.slot,
                    .tile = *tile,
                    .from = from,
                    .rank = slot.rank,
                    .stream = slot.stream,
                    .share = slot.share,
                    .beyond_share = slot.beyond_share,
                    .body = slot.body,
                    .args = slot.args,
                    .progress = slot.progress,
                    .deps = slot.deps,
                    .guards = std::span<const Guard>(slot.guards),
                    .id = slot.id,
                    .copy = slot.is_copy ? &slot.copy : nullptr,
                    .told = slot.step == 0 ? nullptr : &told_[entry.slot],
                    .expected_block = slot.expected_block};
}

void LaunchTable::Tell(const Assignment& work) {
  Slot& slot = slots_[work.slot];
  if (slot.tells == 0 || slot.Complete()) return;
  --slot.tells;
  const auto [begun, done] = work.told->Read();
  events_.Push({DeviceEvent::Kind::kProgress, slot.id, Now(), begun, done});
  news_ = true;
}

bool LaunchTable::Finish(const Assignment& done, Leave why, TimePoint at) {
  Slot& slot = slots_[done.slot];
  const bool limited = slot.max_claimants != 0;
  --slot.claimants;
  slot.stolen += done.stolen;
  if (why == Leave::kCompleted) Report(slot, DeviceEvent::Kind::kComplete, at);
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
  return why != Leave::kExhausted || limited || !slot.live;
}

void LaunchTable::SettleAll() {
  for (std::uint32_t index = slots_.oldest(); index != kNoIndex;) {
    Slot& slot = slots_[index];
    const std::uint32_t next = slot.live_after;
    // A launch that thereby becomes first of its stream was submitted later, so this loop still
    // comes to it.
    if (Retirable(slot)) {
      Retire(index);
    } else if (slot.in_order && slot.eligible && slot.Complete()) {
      UnlinkStream(slot);
    }
    index = next;
  }
}

bool LaunchTable::HasBetter(const Assignment& present, std::uint32_t unit,
                            std::uint8_t level) const {
  const bool at_home = shares_.Has(present.share, unit);
  for (const Entry& entry : order_) {
    const bool smaller = entry.rank < present.rank;
    if (at_home && !smaller) break;  // those behind have no smaller rank either
    const bool better =
        shares_.Has(entry.share, unit) || (!at_home && smaller && entry.beyond_share);
    if (better && entry.level <= level && MayRun(slots_[entry.slot])) return true;
  }
  return false;
}

bool LaunchTable::HasRunnable() const {
  return std::any_of(order_.begin(), order_.end(), [this](const Entry& entry) {
    const Slot& slot = slots_[entry.slot];
    return MayRun(slot) && !(slot.help.alone && HasHelper(slot));
  });
}

bool LaunchTable::NewestMayRun() const {
  const std::uint32_t newest = slots_.newest();
  return newest != kNoIndex && slots_[newest].eligible && MayRun(slots_[newest]);
}

Rank LaunchTable::best_rank() const {
  return order_.empty() ? std::numeric_limits<Rank>::max() : order_.front().rank;
}

bool LaunchTable::Retirable(const Slot& slot) { return slot.claimants == 0 && slot.Over(); }

// Acts on a change of one launch: retires it, or moves its stream on if it is complete, even while
// its last workers still leave. Then does the same with the stream's next launches as each becomes
// first.
void LaunchTable::Settle(std::uint32_t index) {
  while (index != kNoIndex) {
    Slot& slot = slots_[index];
    if (!slot.live) return;  // retired meanwhile
    if (Retirable(slot)) {
      index = Retire(index);
    } else if (slot.in_order && slot.eligible && slot.Complete()) {
      index = UnlinkStream(slot);
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
    if (entry.progress == progress) naming_.push_back(entry.slot);
  }
  for (const std::uint32_t index : naming_) Settle(index);
}

// Returns the launch that thereby became first of its stream, or kNoIndex.
std::uint32_t LaunchTable::Retire(std::uint32_t index) {
  Slot& slot = slots_[index];
  Report(slot, DeviceEvent::Kind::kRetired, Now());
  if (slot.eligible) {
    const Entry entry{slot.rank, slot.sequence, index, slot.share, slot.beyond_share, 0, nullptr};
    order_.erase(std::lower_bound(order_.begin(), order_.end(), entry));
  }
  const std::uint32_t first = slot.in_order ? UnlinkStream(slot) : kNoIndex;
  watchers_ -= slot.watcher ? 1 : 0;
  bound_ -= slot.share != kAllUnits ? 1 : 0;
  slots_.Free(slot, events_);
  return first;
}

void LaunchTable::Report(Slot& slot, DeviceEvent::Kind kind, TimePoint at) {
  slots_.UseCredit(slot);
  events_.Push({.kind = kind, .launch = slot.id, .at = at, .stolen = slot.stolen});
  news_ = news_ || kind != DeviceEvent::Kind::kPlaced;
}

}  // namespace lagoon
