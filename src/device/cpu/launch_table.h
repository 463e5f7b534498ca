#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/host/event_ring.h"
#include "device/host/guard_words.h"

namespace lagoon {

/// The launches in flight on a device of worker threads. Decides which segment a free worker takes,
/// and when a launch is complete and retired. Plain data without threads; the device's lock
/// protects every method. Nothing allocates after construction.
class LaunchTable {
 public:
  struct Limits {
    std::uint32_t launches = 512;
    std::uint32_t streams = 1024;  // ordered streams
    std::size_t events = 4096;
  };
  static constexpr std::uint32_t kMaxSegments = 8;

  /// What a worker took: a segment and the first tile. All pointers and spans stay valid until the
  /// worker calls Finish().
  struct Assignment {
    std::uint32_t slot = 0;
    std::uint32_t segment = 0;
    std::uint32_t tile = 0;
    Rank rank = 0;
    StreamId stream = kUnordered;
    Body body = nullptr;
    const void* args = nullptr;
    Progress* progress = nullptr;
    std::span<const Dep> deps;
    std::span<const Guard> guards;
    LaunchId id{};
    const Copy* copy = nullptr;  // the copy that this is a part of; null: a kernel
  };

  /// `guards`: the device's guard words. SettleAll() follows every change of a word. Borrowed.
  LaunchTable(const Limits& limits, const GuardWords& guards);

  /// Adds the launch. SettleNewest() must follow before the device's lock is given up. `bodies`: by
  /// KernelHandle. CHECKs that the kernels, progress records and stream exist.
  SubmitResult Add(const Launch& launch, std::span<const Body> bodies);
  SubmitResult Add(const Copy& copy);

  /// Claims a tile of the best-ranked segment that may run, and reports kPlaced if it is the first
  /// tile of that segment in this launch. Nothing: no tile is available until the table or a
  /// Progress changes.
  std::optional<Assignment> Pick();

  /// A worker stopped working on `done`. `at`: now, or the time of the last commit if `why` is
  /// kCompleted. True: something may have become runnable.
  bool Finish(const Assignment& done, Leave why, TimePoint at);

  /// Retires the launch added last if it has nothing to do. Call this after workers can see
  /// watchers() (Watchers::Enter()): then either this call or the committing worker sees a commit
  /// that the launch waits for.
  void SettleNewest() {
    if (live_last_ != kNone) Settle(live_last_);
  }

  /// Retires launches that became complete or revoked without a worker: after a guard was raised,
  /// or after a partial done count changed that `watchers()` wait for.
  void SettleAll();

  /// True if some segment may run: of any rank, or of a rank smaller than `than`. Claims nothing.
  bool HasRunnable() const { return HasRunnable(order_.size()); }
  bool HasBetter(Rank than) const;
  /// True if the launch added last may run. An Add() can make no other launch runnable.
  bool NewestMayRun() const;

  /// Smallest rank of the eligible launches: those first in their stream or in no stream. The
  /// largest Rank if there are none.
  Rank best_rank() const;

  /// Number of launches that wait for, or are guarded by, a partial done count. Such a count
  /// changes without a call of Finish(). While there are any, workers call SettleAll() after every
  /// commit.
  std::uint32_t watchers() const { return watchers_; }

  EventRing& events() { return events_; }
  const EventRing& events() const { return events_; }
  /// True if kComplete or kRetired was reported since the last call.
  bool TakeNews() { return std::exchange(news_, false); }

  std::uint32_t live() const { return live_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct WorkSegment {
    Body body = nullptr;
    const void* args = nullptr;
    Progress* progress = nullptr;
    std::span<const Dep> deps;
    std::array<Guard, kGuardsPerSegment> guards;
    std::uint32_t max_claimants = 0;
    std::uint32_t claimants = 0;
    bool placed = false;
  };

  // States: free -> queued behind its stream (not eligible) -> eligible -> retired (free again).
  struct Slot {
    LaunchId id{};
    Rank rank = 0;
    std::uint64_t sequence = 0;
    StreamId stream = kUnordered;
    std::uint32_t segment_count = 0;
    std::uint32_t credits = 0;  // events that may still come
    std::uint32_t active = 0;   // workers in its segments
    bool started = false;       // a tile was claimed
    bool eligible = false;      // in order_: first of its stream, or in no stream
    bool in_stream = false;     // linked in its stream
    bool watcher = false;
    std::uint32_t stream_before = kNone, stream_after = kNone;
    // In order of submission. Of a free slot: live_after is the next free slot.
    std::uint32_t live_before = kNone, live_after = kNone;
    Copy copy;  // read by the body of a transfer
    std::array<WorkSegment, kMaxSegments> segments;
  };

  struct Stream {
    std::uint32_t first = kNone, last = kNone;
  };

  // An eligible launch. Kept outside of the slots, so that a search touches few cache lines.
  struct Entry {
    Rank rank;
    std::uint64_t sequence;
    std::uint32_t slot;
    std::uint32_t segment_count;
    const Progress* progress;  // record of the first segment
    bool operator<(const Entry& other) const {
      return rank != other.rank ? rank < other.rank : sequence < other.sequence;
    }
  };

  Slot* Reserve(std::uint32_t segments);
  void Insert(Slot& slot);
  void LinkStream(std::uint32_t index);
  std::uint32_t UnlinkStream(std::uint32_t index);
  void MakeEligible(std::uint32_t index);

  bool HasRunnable(std::size_t entries) const;
  static bool MayRun(const Slot& slot);
  static bool MayRun(const Slot& slot, const WorkSegment& segment);
  static bool Names(const Entry& entry, const Slot& slot, const Progress* progress);
  static bool Finished(const Slot& slot);
  static bool Retirable(const Slot& slot);
  bool Watches(const Slot& slot) const;

  void Settle(std::uint32_t index);
  void SettleNaming(const Progress* progress);
  std::uint32_t Retire(std::uint32_t index);
  void Report(Slot& slot, DeviceEvent::Kind kind, std::uint32_t segment, TimePoint at);

  std::uint32_t Index(const Slot& slot) const {
    return static_cast<std::uint32_t>(&slot - slots_.data());
  }

  const GuardWords& guards_;
  std::vector<Slot> slots_;
  std::uint32_t free_ = kNone;
  std::uint32_t live_first_ = kNone, live_last_ = kNone;
  std::uint32_t live_ = 0;
  std::uint32_t watchers_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::vector<Entry> order_;     // eligible launches only, sorted
  std::vector<Stream> streams_;  // by StreamId - 1
  EventRing events_;
  std::vector<std::uint32_t> naming_;  // scratch memory of SettleNaming
  bool news_ = false;
};

}  // namespace lagoon
