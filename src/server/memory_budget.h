#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"

namespace lagoon {

/// Most bytes of a compressed body or message when it is inflated. A few hundred bytes can become
/// 1 MiB.
inline constexpr std::size_t kMostInflatedBytes = std::size_t{64} << 20;

/// Owns memory that a MemoryBudget can take back; implemented by connections.
class MemoryHolder {
 public:
  virtual ~MemoryHolder() = default;
  /// A charge of this holder was revoked: free the memory soon. Any thread; no lock is held.
  virtual void OnRevoked() = 0;
};

class MemoryCharge;

/// The memory that bodies and answers of all connections may take together. Any thread.
///
/// Every charge has OwnBytes() for itself: small requests and answers always find room, as there
/// are no more holders than `max_holders`. What a charge holds beyond OwnBytes() comes from a part
/// that all share. Charges above kLargeBytes may fill three quarters of that part, so that one
/// quarter is left for charges of medium size. When there is no room, slow charges are revoked: the
/// one with the highest cost (bytes times seconds held) first, and only those with a higher cost
/// than the charge that is to grow.
class MemoryBudget {
 public:
  static constexpr std::size_t kOwnBytes = std::size_t{64} << 10;

  struct Limits {
    std::size_t total_bytes = std::size_t{512} << 20;
    std::size_t max_holders = 1024;
    std::size_t most_own_bytes = kOwnBytes;
  };

  static constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
  // A charge is slow when it is older than kGrace and older than its bytes take at this rate. A
  // client on a local network is ten times as fast.
  static constexpr std::chrono::milliseconds kGrace{250};
  static constexpr double kGoodBytesPerSecond = 16.0 * (1 << 20);

  explicit MemoryBudget(Limits limits);

  /// Limits::most_own_bytes, or less if that for all holders would exceed half of the total.
  std::size_t OwnBytes() const { return own_; }
  /// The size of the part that all share, and how much of it is taken.
  std::size_t SharedBytes() const { return shared_; }
  std::size_t SharedBytesUsed() const;
  /// The most bytes that one charge can take when no other takes any.
  std::size_t MostBytes() const;

 private:
  friend class MemoryCharge;
  struct Entry {
    std::weak_ptr<MemoryHolder> holder;
    TimePoint began;
    std::size_t bytes = 0;  // bytes taken of the shared part
    bool pinned = false;
  };
  using Entries = std::map<const MemoryCharge*, Entry>;
  using Holders = std::vector<std::shared_ptr<MemoryHolder>>;

  // Bytes of the shared part that all charges above kLargeBytes together may take.
  std::size_t LargeBytes() const { return shared_ - shared_ / 4; }
  std::size_t LimitFor(std::size_t bytes) const {
    return bytes > kLargeBytes ? LargeBytes() : shared_;
  }
  bool Resize(MemoryCharge& charge, std::size_t bytes, TimePoint now, bool pinned);
  bool ResizeLocked(MemoryCharge& charge, std::size_t bytes, TimePoint now, Holders& revoked)
      REQUIRES(mutex_);
  bool TakeFromSlow(std::size_t bytes, double cost, TimePoint now, Holders& revoked)
      REQUIRES(mutex_);
  bool Pin(const MemoryCharge& charge);
  bool Revoked(const MemoryCharge& charge) const;
  // The bytes of the only other charge of the same holder, if a charge of `bytes` can never be
  // there beside it; else 0.
  std::size_t BytesInTheWay(const MemoryCharge& charge, std::size_t bytes) const;
  void Release(const MemoryCharge& charge);

  const std::size_t own_;
  const std::size_t shared_;
  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);  // charges beyond OwnBytes() that are not revoked
  std::size_t used_ GUARDED_BY(mutex_) = 0;
};

/// The memory of one body or one answer. Keeps the budget alive, and gives everything back in its
/// destructor. One thread at a time.
class MemoryCharge {
 public:
  MemoryCharge(std::shared_ptr<MemoryBudget> budget, std::weak_ptr<MemoryHolder> holder,
               TimePoint now)
      : budget_(std::move(budget)), holder_(std::move(holder)), began_(now) {}
  ~MemoryCharge();
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;

  /// Makes the charge at least `bytes`, in steps of OwnBytes(). False: there is no room and the
  /// charge stays as it was, or the charge was revoked.
  bool Grow(std::size_t bytes, TimePoint now);
  /// Grow() and Pin() in one: for memory that will be written by a computation.
  bool Hold(std::size_t bytes, TimePoint now);
  /// The memory has become another one, of `bytes`, more or less than before: the charge can be
  /// revoked, and counts as begun now. False: as Grow().
  bool Renew(std::size_t bytes, TimePoint now);
  /// Makes the charge irrevocable, because work on the memory begins. False: it was revoked before.
  bool Pin();
  bool revoked() const;
  /// Why there was no room for an answer of `bytes`: kUnavailable if there may be some later, or
  /// kResourceExhausted if there can never be, also because its own request takes too much.
  Error NoRoom(std::size_t bytes) const;

 private:
  friend class MemoryBudget;
  bool Resize(std::size_t bytes, TimePoint now, bool pinned);

  const std::shared_ptr<MemoryBudget> budget_;
  const std::weak_ptr<MemoryHolder> holder_;
  TimePoint began_;
  std::size_t bytes_ = 0;
  bool listed_ = false;  // was put on the budget's list; if it is no longer there, it was revoked
};

}  // namespace lagoon
