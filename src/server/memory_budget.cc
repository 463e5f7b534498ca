#include "server/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lagoon {
namespace {

double Seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// In byte-seconds.
double Cost(std::size_t bytes, Nanoseconds age) {
  return static_cast<double>(bytes) * Seconds(age);
}

bool Slow(std::size_t bytes, Nanoseconds age) {
  return Seconds(age - MemoryBudget::kGrace) >
         static_cast<double>(bytes) / MemoryBudget::kGoodBytesPerSecond;
}

}  // namespace

MemoryBudget::MemoryBudget(Limits limits)
    : own_(std::clamp<std::size_t>(
          limits.total_bytes / 2 / std::max<std::size_t>(limits.max_holders, 1), 1,
          limits.most_own_bytes)),
      shared_(limits.total_bytes - std::min(limits.total_bytes, own_ * limits.max_holders)) {}

std::size_t MemoryBudget::SharedBytesUsed() const {
  const MutexLock lock(mutex_);
  return used_;
}

std::size_t MemoryBudget::MostBytes() const {
  return own_ + std::max(LargeBytes(), std::min(shared_, kLargeBytes - own_)) / own_ * own_;
}

// `bytes`: more than OwnBytes().
bool MemoryBudget::Resize(MemoryCharge& charge, std::size_t bytes, TimePoint now, bool pinned) {
  Holders revoked;  // outlives the lock: the last owner of a connection releases its charges
  bool resized = false;
  {
    const MutexLock lock(mutex_);
    resized = ResizeLocked(charge, bytes, now, revoked);
    if (resized) entries_[&charge].pinned = pinned;
  }
  for (const auto& holder : revoked) holder->OnRevoked();
  return resized;
}

bool MemoryBudget::ResizeLocked(MemoryCharge& charge, std::size_t bytes, TimePoint now,
                                Holders& revoked) {
  const auto entry = entries_.find(&charge);
  if (charge.listed_ && entry == entries_.end()) return false;
  const std::size_t held = charge.listed_ ? entry->second.bytes : 0;
  const std::size_t wanted = bytes - own_;
  const std::size_t limit = LimitFor(bytes);
  const std::size_t used = used_ - held + wanted;
  if (wanted > held && used > limit &&
      !TakeFromSlow(used - limit, Cost(held, now - charge.began_), now, revoked)) {
    return false;
  }
  entries_[&charge] = {charge.holder_, charge.began_, wanted, false};
  used_ += wanted - held;
  charge.listed_ = true;
  return true;
}

// All or nothing, so that no charge is revoked in vain. `cost`: that of the growing charge, which
// therefore never revokes itself.
bool MemoryBudget::TakeFromSlow(std::size_t bytes, double cost, TimePoint now, Holders& revoked) {
  std::vector<std::pair<double, Entries::iterator>> slow;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const Nanoseconds age = now - entry->second.began;
    const double costs = Cost(entry->second.bytes, age);
    if (!entry->second.pinned && Slow(entry->second.bytes, age) && costs > cost) {
      slow.emplace_back(costs, entry);
    }
  }
  std::sort(slow.begin(), slow.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::size_t found = 0;
  std::size_t count = 0;
  while (count < slow.size() && found < bytes) found += slow[count++].second->second.bytes;
  if (found < bytes) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = slow[i].second;
    if (auto holder = entry->second.holder.lock()) revoked.push_back(std::move(holder));
    used_ -= entry->second.bytes;
    entries_.erase(entry);
  }
  return true;
}

bool MemoryBudget::Pin(const MemoryCharge& charge) {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(&charge);
  if (entry == entries_.end()) return false;
  entry->second.pinned = true;
  return true;
}

bool MemoryBudget::Revoked(const MemoryCharge& charge) const {
  const MutexLock lock(mutex_);
  return !entries_.contains(&charge);
}

std::size_t MemoryBudget::BytesInTheWay(const MemoryCharge& charge, std::size_t bytes) const {
  const auto of_holder = [&](const Entries::value_type& entry) {
    const auto& holder = entry.second.holder;
    return entry.first != &charge && !holder.owner_before(charge.holder_) &&
           !charge.holder_.owner_before(holder);
  };
  const MutexLock lock(mutex_);
  const auto other = std::ranges::find_if(entries_, of_holder);
  if (other == entries_.end() || std::ranges::count_if(entries_, of_holder) > 1) return 0;
  const std::size_t held = other->second.bytes;
  return bytes - std::min(bytes, own_) + held > LimitFor(bytes) ? held : 0;
}

void MemoryBudget::Release(const MemoryCharge& charge) {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(&charge);
  if (entry == entries_.end()) return;
  used_ -= entry->second.bytes;
  entries_.erase(entry);
}

MemoryCharge::~MemoryCharge() {
  if (listed_) budget_->Release(*this);
}

bool MemoryCharge::Grow(std::size_t bytes, TimePoint now) {
  return bytes <= bytes_ || Resize(bytes, now, /*pinned=*/false);
}

bool MemoryCharge::Hold(std::size_t bytes, TimePoint now) {
  return Resize(std::max(bytes, bytes_), now, /*pinned=*/true);
}

bool MemoryCharge::Renew(std::size_t bytes, TimePoint now) {
  began_ = now;
  return Resize(bytes, now, /*pinned=*/false);
}

bool MemoryCharge::Resize(std::size_t bytes, TimePoint now, bool pinned) {
  const std::size_t own = budget_->OwnBytes();
  const std::size_t steps = (bytes + own - 1) / own;
  if (steps > 1) {
    if (!budget_->Resize(*this, steps * own, now, pinned)) return false;
  } else if (std::exchange(listed_, false)) {
    budget_->Release(*this);
  }
  bytes_ = steps * own;
  return true;
}

Error MemoryCharge::NoRoom(std::size_t bytes) const {
  if (const std::size_t most = budget_->MostBytes(); bytes > most) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("an answer of {} bytes is larger than the {} bytes that one answer may "
                        "take; ask for less at once: fewer rows, smaller shapes or fewer outputs",
                        bytes, most)};
  }
  if (const std::size_t request = budget_->BytesInTheWay(*this, bytes); request > 0) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("an answer of {} bytes has no room beside the {} bytes of its request: "
                        "send less at once, or ask for less",
                        bytes, request)};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("no room for an answer of {} bytes: requests and answers in progress hold {} "
                      "of {} bytes that they share; try again later",
                      bytes, budget_->SharedBytesUsed(), budget_->SharedBytes())};
}

bool MemoryCharge::Pin() { return !listed_ || budget_->Pin(*this); }

bool MemoryCharge::revoked() const { return listed_ && budget_->Revoked(*this); }

}  // namespace lagoon
