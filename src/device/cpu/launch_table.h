#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/host/event_ring.h"
#include "device/host/guard_words.h"
#include "device/host/in_flight.h"
#include "device/host/shares.h"

namespace lagoon {

/// The launches in flight on a device of worker threads. Decides which launch a free worker works
/// on, and when a launch is complete and retired. Plain data without threads; the device's lock
/// protects every method. Nothing allocates after construction.
class LaunchTable {
 public:
  struct Limits {
    std::uint32_t launches = 512;
    std::uint32_t streams = 1024;  // ordered streams
    std::size_t events = 4096;
    std::uint32_t units = 0;    // that may be lent
    std::uint32_t workers = 1;  // who share the tiles of a kernel
  };
  /// Of a worker: it takes launches of every HelpTerms::level.
  static constexpr std::uint8_t kAnyLevel = 255;

  /// The blocks of a launch of which kProgress tells. Its workers count them without the lock.
  class ToldBlocks {
   public:
    void Reset(std::uint32_t step, std::uint32_t blocks) {
      step_ = step;
      blocks_ = blocks;
      // relaxed: workers learn of the launch under the lock.
      begun_.store(0, std::memory_order_relaxed);
      done_.store(0, std::memory_order_relaxed);
    }
    /// A block begins, or was committed. True: Tell() is due.
    bool Begin() { return Due(begun_.fetch_add(1, std::memory_order_relaxed) + 1); }
    /// release: who sees the block done also sees that it has begun.
    bool Commit() { return Due(done_.fetch_add(1, std::memory_order_release) + 1); }
    /// The two counts. Of blocks that are done, all have begun.
    std::pair<std::uint32_t, std::uint32_t> Read() const {
      const std::uint32_t done = done_.load(std::memory_order_acquire);
      return {begun_.load(std::memory_order_relaxed), done};
    }

   private:
    bool Due(std::uint32_t count) const { return count % step_ == 0 || count == blocks_; }

    std::uint32_t step_ = 1, blocks_ = 0;  // set while no worker counts
    std::atomic<std::uint32_t> begun_{0}, done_{0};
  };

  /// What a worker took: a launch and the first tile. All pointers and spans stay valid until the
  /// worker calls Finish().
  struct Assignment {
    std::uint32_t slot = 0;
    std::uint32_t tile = 0;
    std::uint32_t from = 0;  // where this worker's part of the tiles begins
    Rank rank = 0;
    StreamId stream = kUnordered;
    ShareId share = kAllUnits;
    bool beyond_share = false;
    Body body = nullptr;
    const void* args = nullptr;
    Progress* progress = nullptr;
    std::span<const Dep> deps = {};
    std::span<const Guard> guards = {};
    LaunchId id{};
    const Copy* copy = nullptr;  // the copy that this is a part of; null: a kernel
    ToldBlocks* told = nullptr;  // null: its blocks are not counted
    Nanoseconds expected_block{0};
    Nanoseconds stolen{0};  // DeviceEvent::stolen, of the worker's blocks; set by the worker
  };

  /// `guards`: the device's guard words. SettleAll() follows every change of a word. `shares`: the
  /// device's. Both are borrowed.
  LaunchTable(const Limits& limits, const GuardWords& guards, const Shares& shares);

  /// Adds the launch, whose kernel has `body`. SettleNewest() must follow before the device's lock
  /// is given up. CHECKs that the progress record and the stream exist.
  SubmitResult Add(const Launch& launch, Body body);
  SubmitResult Add(const Copy& copy);

  /// Claims a tile of the best-ranked launch whose share has `unit`, or else of the best-ranked one
  /// that may go beyond its share. Reports kPlaced if it is the first tile of that launch. Nothing:
  /// no tile is available to this unit until the table, a Progress or a share changes. `level`: the
  /// largest HelpTerms::level that it may take.
  std::optional<Assignment> Pick(std::uint32_t unit, std::uint8_t level = kAnyLevel);

  /// The unit is lent to a thread, for whose launches HelpTerms name it by the result.
  BorrowedUnit Lend(std::uint32_t unit);
  void TakeBack(std::uint32_t unit) { lent_[unit] = kNoUnit; }
  /// The unit that was lent.
  static std::uint32_t UnitOf(BorrowedUnit unit) {
    return static_cast<std::uint32_t>(unit) % kMostUnits;
  }

  /// Reports kProgress, unless the kernel is complete. When `work.told` says so.
  void Tell(const Assignment& work);

  /// A worker stopped working on `done`. `at`: now, or the time of the last commit if `why` is
  /// kCompleted. True: something may have become runnable.
  bool Finish(const Assignment& done, Leave why, TimePoint at);

  /// Retires the launch added last if it has nothing to do. Call this after workers can see
  /// watchers() (Watchers::Enter()): then either this call or the committing worker sees a commit
  /// that the launch waits for.
  void SettleNewest() {
    if (slots_.newest() != kNoIndex) Settle(slots_.newest());
  }

  /// Retires launches that became complete or revoked without a worker: after a guard was raised,
  /// or after a partial done count changed that `watchers()` wait for.
  void SettleAll();

  /// True if some launch may run, on whatever unit, for which a sleeping unit is to be woken
  /// (HelpTerms::alone). Claims nothing.
  bool HasRunnable() const;
  /// True if another launch goes before `present`, which runs on `unit`: one of a smaller rank, or,
  /// if the unit is not of its share, any one whose share has the unit. Claims nothing.
  /// `level`: as for Pick().
  bool HasBetter(const Assignment& present, std::uint32_t unit,
                 std::uint8_t level = kAnyLevel) const;
  /// True if the launch added last may run. An Add() can make no other launch runnable.
  bool NewestMayRun() const;
  /// How many sleeping units are to be woken for the launch added last, which has `tiles` tiles.
  std::uint64_t WantedByNewest(std::uint64_t tiles) const;

  /// Smallest rank of the eligible launches: those first in their stream or in no stream. The
  /// largest Rank if there are none.
  Rank best_rank() const;

  /// Number of launches that wait for, or are guarded by, a partial done count. Such a count
  /// changes without a call of Finish(). While there are any, workers call SettleAll() after every
  /// commit.
  std::uint32_t watchers() const { return watchers_; }

  /// True if a launch in flight has a share. Then what is runnable may not be for every unit.
  bool any_bound() const { return bound_ != 0; }

  EventRing& events() { return events_; }
  const EventRing& events() const { return events_; }
  /// True if kComplete or kRetired was reported since the last call.
  bool TakeNews() { return std::exchange(news_, false); }

  std::uint32_t live() const { return slots_.live(); }

 private:
  // States: free -> queued behind its stream (not eligible) -> eligible -> retired (free again).
  struct Slot : InFlight {
    Body body = nullptr;
    std::uint32_t claimants = 0;  // workers in it
    Nanoseconds stolen{0};        // of the workers that have left
    bool eligible = false;        // in order_: first of its stream, or in no stream
    bool watcher = false;         // counted in watchers_
  };

  // An eligible launch. Kept outside of the slots, so that a search touches few cache lines.
  struct Entry {
    Rank rank;
    std::uint64_t sequence;
    std::uint32_t slot;
    ShareId share;
    bool beyond_share;
    std::uint8_t level;
    const Progress* progress;
    bool operator<(const Entry& other) const {
      return rank != other.rank ? rank < other.rank : sequence < other.sequence;
    }
  };

  static constexpr std::uint32_t kMostUnits = 4096;

  SubmitResult Insert(Slot* slot, Body body);
  std::optional<Assignment> Claim(const Entry& entry, std::uint32_t unit);
  std::uint32_t UnlinkStream(Slot& slot);
  void MakeEligible(std::uint32_t index);

  static bool MayRun(const Slot& slot);
  bool HasHelper(const Slot& slot) const;
  static bool Retirable(const Slot& slot);

  void Settle(std::uint32_t index);
  void SettleNaming(const Progress* progress);
  std::uint32_t Retire(std::uint32_t index);
  void Report(Slot& slot, DeviceEvent::Kind kind, TimePoint at);

  const GuardWords& guards_;
  const Shares& shares_;
  InFlightSlots<Slot> slots_;
  std::uint32_t watchers_ = 0;
  std::uint32_t bound_ = 0;  // launches in flight that have a share
  const std::uint32_t workers_;
  std::vector<Entry> order_;  // eligible launches only, sorted
  EventRing events_;
  std::vector<ToldBlocks> told_;  // by slot
  // By unit: who has it. kNoUnit: its worker.
  std::vector<BorrowedUnit> lent_;
  std::uint32_t loans_ = 0;
  std::vector<std::uint32_t> naming_;  // scratch memory of SettleNaming
  bool news_ = false;
};

}  // namespace lagoon
