#pragma once

// What all devices keep of a launch or copy in flight: what was asked, the order of submission, the
// order within a stream, and the credits of its events. What a device decides (when it runs, and
// where) is its own.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "device/device.h"
#include "device/host/copy_range.h"
#include "device/host/guard_words.h"

namespace lagoon {

/// The index of nothing, in lists of indexes.
inline constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};

/// Most events of one launch, beside kProgress: kPlaced, kComplete, kRetired.
inline constexpr std::uint32_t kEventsPerLaunch = 3;

/// A launch or copy in flight, or a free slot for one. A device derives its slots from this.
struct InFlight {
  LaunchId id{};
  StreamId stream = kUnordered;
  ShareId share = kAllUnits;
  bool beyond_share = false;  // Launch::beyond_share, of a launch that has a share
  HelpTerms help = {};
  Rank rank = 0;
  std::uint64_t sequence = 0;  // number in order of submission
  const void* args = nullptr;
  Progress* progress = nullptr;
  std::span<const Dep> deps = {};
  std::array<Guard, kGuardsPerLaunch> guards = {};
  std::uint32_t max_claimants = 0;
  std::uint32_t most_blocks = 0;
  Nanoseconds expected_block{0};  // of a kernel
  bool is_copy = false;
  Copy copy;  // only if is_copy

  bool live = false;
  bool started = false;       // one of its blocks has run
  bool in_order = false;      // in the order of its stream
  std::uint32_t credits = 0;  // events that may still come, beside kProgress
  std::uint32_t tells = 0;    // kProgress that may still come
  std::uint32_t step = 0;     // ProgressStep()
  std::uint32_t stream_before = kNoIndex, stream_after = kNoIndex;
  // In order of submission. Of a free slot: live_after is the next free slot.
  std::uint32_t live_before = kNoIndex, live_after = kNoIndex;

  bool Complete() const { return progress->Complete(); }
  /// Whether a kProgress is due now that `count` blocks have begun, or that so many are done.
  bool Tells(std::uint32_t count) const {
    return step != 0 && (count % step == 0 || count == progress->blocks());
  }
  /// True if a guard keeps its blocks from running.
  bool Left() const { return Revoked(std::span<const Guard>(guards), started); }
  /// True if none of its blocks will begin any more.
  bool Over() const { return Complete() || Left(); }
  bool MayBegin() const { return !Complete() && !Left() && DepsMet(deps); }

  /// True if it waits for, or is guarded by, a partial done count. Such a count changes without a
  /// call of the host and without the end of a launch. `words`: the device's guard words.
  bool WatchesCount(const GuardWords& words) const {
    return std::any_of(
               deps.begin(), deps.end(),
               [](const Dep& dep) { return dep.blocks < dep.on->blocks() && !dep.Met(); }) ||
           std::any_of(guards.begin(), guards.end(), [&words](const Guard& guard) {
             return guard.word != nullptr && !words.Owns(guard.word);
           });
  }
};

/// The launches in flight of a device, in slots whose addresses do not change. `Slot` derives from
/// InFlight. Plain data without threads; the device's lock protects every method. Nothing allocates
/// after construction.
template <typename Slot>
class InFlightSlots {
 public:
  /// `streams`: number of ordered streams that Link() may meet.
  InFlightSlots(std::uint32_t launches, std::uint32_t streams)
      : slots_(launches), streams_(streams) {
    for (std::uint32_t i = launches; i-- > 0;) {
      slots_[i].live_after = free_;
      free_ = i;
    }
  }

  Slot& operator[](std::uint32_t index) { return slots_[index]; }
  const Slot& operator[](std::uint32_t index) const { return slots_[index]; }
  std::uint32_t IndexOf(const Slot& slot) const {
    return static_cast<std::uint32_t>(&slot - slots_.data());
  }

  /// Fills a free slot and reserves room for its events in `events`. Null: no slot or no room, and
  /// nothing has changed. `asked`: a Launch or a Copy; CHECKs its record.
  template <typename Asked, typename Events>
  Slot* Take(const Asked& asked, Events& events) {
    const std::uint32_t step = StepOf(asked);
    const std::uint32_t tells = step == 0 ? 0 : kMostProgress;
    if (free_ == kNoIndex || !events.Reserve(kEventsPerLaunch + tells)) return nullptr;
    Slot& slot = slots_[free_];
    const std::uint32_t next_free = slot.live_after;
    slot = Slot{};
    Fill(slot, asked);
    free_ = next_free;
    slot.sequence = next_sequence_++;
    slot.credits = kEventsPerLaunch;
    slot.tells = tells;
    slot.step = step;
    return &slot;
  }

  /// Puts a taken slot behind the newest launch.
  void Link(Slot& slot) {
    const std::uint32_t index = IndexOf(slot);
    slot.live = true;
    slot.live_before = newest_;
    (newest_ == kNoIndex ? oldest_ : slots_[newest_].live_after) = index;
    newest_ = index;
    ++live_;
  }

  /// Puts a launch of an ordered stream behind the last launch of that stream. True: it is first.
  bool LinkStream(Slot& slot) {
    const std::uint32_t index = IndexOf(slot);
    Stream& stream = StreamOf(slot);
    slot.in_order = true;
    slot.stream_before = stream.last;
    (stream.last == kNoIndex ? stream.first : slots_[stream.last].stream_after) = index;
    stream.last = index;
    return slot.stream_before == kNoIndex;
  }

  /// Takes a launch out of the order of its stream. Returns the launch that is first thereby, or
  /// kNoIndex.
  std::uint32_t UnlinkStream(Slot& slot) {
    Stream& stream = StreamOf(slot);
    slot.in_order = false;
    (slot.stream_after == kNoIndex ? stream.last : slots_[slot.stream_after].stream_before) =
        slot.stream_before;
    (slot.stream_before == kNoIndex ? stream.first : slots_[slot.stream_before].stream_after) =
        slot.stream_after;
    return slot.stream_before == kNoIndex ? stream.first : kNoIndex;
  }

  /// Uses up a credit. The device then pushes the event into its events.
  static void UseCredit(Slot& slot) {
    LAGOON_CHECK(slot.credits > 0);
    --slot.credits;
  }

  /// Frees the slot of a launch that has left the order of its stream, and gives back the credits
  /// of events that did not come. The slot need not be linked.
  template <typename Events>
  void Free(Slot& slot, Events& events) {
    events.Release(slot.credits + slot.tells);
    if (slot.live) {
      (slot.live_before == kNoIndex ? oldest_ : slots_[slot.live_before].live_after) =
          slot.live_after;
      (slot.live_after == kNoIndex ? newest_ : slots_[slot.live_after].live_before) =
          slot.live_before;
      --live_;
    }
    slot.live = false;
    slot.live_after = free_;
    free_ = IndexOf(slot);
  }

  /// The launch submitted first and last of those in flight, or kNoIndex. From the oldest on,
  /// InFlight::live_after goes on.
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t newest() const { return newest_; }
  std::uint32_t live() const { return live_; }

 private:
  struct Stream {
    std::uint32_t first = kNoIndex, last = kNoIndex;
  };

  Stream& StreamOf(const Slot& slot) {
    LAGOON_CHECK(slot.stream != kUnordered && Raw(slot.stream) <= streams_.size());
    return streams_[Raw(slot.stream) - 1];
  }

  static std::uint32_t StepOf(const Launch& launch) {
    LAGOON_CHECK(launch.progress != nullptr);
    return ProgressStep(launch.tell_every, launch.progress->blocks());
  }
  static std::uint32_t StepOf(const Copy& /*copy*/) { return 0; }

  static void Fill(InFlight& slot, const Launch& launch) {
    slot.id = launch.id;
    slot.stream = launch.stream;
    slot.rank = launch.rank;
    slot.args = launch.args;
    slot.progress = launch.progress;
    slot.deps = launch.deps;
    slot.max_claimants = launch.max_claimants;
    slot.most_blocks = launch.most_blocks;
    slot.expected_block = launch.expected_block;
    slot.share = launch.share;
    slot.help = launch.help;
    slot.beyond_share = launch.beyond_share && launch.share != kAllUnits;
    std::copy(std::begin(launch.guards), std::end(launch.guards), slot.guards.begin());
  }

  static void Fill(InFlight& slot, const Copy& copy) {
    LAGOON_CHECK(copy.progress != nullptr && copy.progress->blocks() == CopyBlocks(copy.bytes));
    LAGOON_CHECK(PartsFit(copy));
    slot.id = copy.id;
    slot.stream = copy.stream;
    slot.rank = copy.rank;
    slot.progress = copy.progress;
    slot.deps = copy.deps;
    slot.help = copy.help;
    slot.guards = CopyGuards(copy);
    slot.is_copy = true;
    slot.copy = copy;
  }

  std::vector<Slot> slots_;
  std::vector<Stream> streams_;  // by StreamId - 1
  std::uint32_t free_ = kNoIndex;
  std::uint32_t oldest_ = kNoIndex, newest_ = kNoIndex;
  std::uint32_t live_ = 0;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace lagoon
