#pragma once

// The block protocol (docs/design/block-protocol.md) for a CUDA block. Thread 0 reads and decides.
// The other threads learn the decision at a barrier, so that all threads go the same way.

#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/gpu/portable.cuh"

namespace lagoon::cuda {

/// Adds to a tagged word and returns the value before.
LAGOON_DEVICE u32 TaggedAdd(u64* word, u32 tag, u32 value) {
  u64 seen = LoadRelaxed(word);
  while (TagOf(seen) != tag) {
    const u64 before = CompareExchange(word, seen, Tagged(tag, value));
    if (before == seen) return 0;
    seen = before;
  }
  return ValueOf(FetchAdd(word, value));
}

/// Sets bits of a tagged word and returns the value before.
LAGOON_DEVICE u32 TaggedOr(u64* word, u32 tag, u32 bits) {
  u64 seen = LoadRelaxed(word);
  while (TagOf(seen) != tag) {
    const u64 before = CompareExchange(word, seen, Tagged(tag, bits));
    if (before == seen) return 0;
    seen = before;
  }
  return ValueOf(FetchOr(word, bits));
}

LAGOON_DEVICE bool Raised(const GuardRef& guard) {
  // Relaxed: a guard is a hint, nothing is published through it.
  if (guard.done != nullptr) {
    const u64 count = LoadRelaxed(guard.done);
    return TagOf(count) == guard.tag && static_cast<int>(ValueOf(count) - guard.limit) > 0;
  }
  return guard.word != nullptr && static_cast<int>(LoadRelaxed(guard.word) - guard.limit) > 0;
}

/// What a body sees of its launch.
class BlockControl {
 public:
  LAGOON_DEVICE explicit BlockControl(const GuardRef* guards) : guards_(guards) {}

  /// True in thread 0 when a guard asks the block to leave, false in all other threads: to be
  /// folded into a barrier that the body needs anyway. A loop may read it an iteration early.
  LAGOON_DEVICE bool ShouldLeave() const {
    if (threadIdx.x != 0) return false;
    for (u32 i = 0; i < kMaxGuards; ++i) {
      if (guards_[i].only_before_start == 0 && Raised(guards_[i])) return true;
    }
    return false;
  }

  /// A barrier; returns the same value in all threads. Bodies call it at most 20 us apart, the
  /// commit included. After true the body returns false, unless it has written something that
  /// others see.
  LAGOON_DEVICE bool SyncShouldLeave() const { return __syncthreads_or(ShouldLeave()) != 0; }

 private:
  const GuardRef* guards_;
};

/// Claim() found no tile.
inline constexpr u32 kNoTile = ~u32{0};

// Only thread 0 makes the calls below.

/// Takes the unclaimed tile `wanted`, or another one: the search begins at the word of `wanted` and
/// goes around the end. kNoTile: it found none.
LAGOON_DEVICE u32 Claim(const RecordRef& record, u32 wanted) {
  const u32 words = (record.blocks + 31) / 32;
  u32 preferred = u32{1} << (wanted % 32);
  u32 index = wanted / 32;
  for (u32 tried = 0; tried < words; ++tried, preferred = 0) {
    const u32 left = record.blocks - index * 32;
    const u32 all = left >= 32 ? ~u32{0} : (u32{1} << left) - 1;
    u64* const word = record.claims + index;
    u64 seen = LoadRelaxed(word);
    for (;;) {
      const bool fresh = TagOf(seen) != record.tag;
      const u32 bits = fresh ? all : ValueOf(seen);
      if (bits == 0) break;
      const u32 tile = LowestBit((bits & preferred) != 0 ? preferred : bits);
      const u64 bit = u64{1} << tile;
      // Only the first claim in a word must compare: after it, the tag of the word stays.
      const u64 before = fresh ? CompareExchange(word, seen, Tagged(record.tag, all) & ~bit)
                               : FetchAnd(word, ~bit);
      if (fresh ? before == seen : (before & bit) != 0) {
        Fence();  // pairs with Unclaim(): after the former owner's reads
        return index * 32 + tile;
      }
      seen = fresh ? before : before & ~bit;
    }
    index = index + 1 == words ? 0 : index + 1;
  }
  return kNoTile;
}

/// Gives back a tile of which nothing was written.
LAGOON_DEVICE void Unclaim(const RecordRef& record, u32 tile) {
  Fence();
  FetchOr(record.claims + tile / 32, u64{1} << (tile % 32));
}

/// Call this after the barrier that follows the block's last write. Returns the number of tiles
/// done now.
LAGOON_DEVICE u32 Commit(const RecordRef& record) {
  Fence();  // the tile's data go with the count
  return TaggedAdd(record.done, record.tag, 1) + 1;
}

LAGOON_DEVICE bool Met(const DepRef& dep) {
  const u64 count = LoadAcquire(dep.done);  // pairs with Commit()
  return TagOf(count) == dep.tag && ValueOf(count) >= dep.blocks;
}

LAGOON_DEVICE void Post(const RingRef& ring, u64 entry) {
  const u64 position = FetchAdd(ring.head, 1);
  // One store, so that phase and entry come together. No fence: the note publishes only itself.
  StoreToHost(ring.entries + (position & (ring.capacity - 1)),
              entry | PhaseOfLap(position / ring.capacity));
}

}  // namespace lagoon::cuda
