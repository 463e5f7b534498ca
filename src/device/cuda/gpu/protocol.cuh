#pragma once

// The block protocol (docs/design/block-protocol.md) for a CUDA block. Thread 0 reads and decides.
// The other threads learn the decision at a barrier, so that all threads go the same way.

#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/gpu/portable.cuh"

namespace lagoon::cuda {

/// Makes `word`, which was `seen`, zero under `tag` if it has another tag. Nobody waits for the
/// answer, as this comes before all that the thread does to the word later.
LAGOON_DEVICE void OpenWord(u64* word, u64 seen, u32 tag) {
  if (TagOf(seen) != tag) CompareExchange(word, seen, Tagged(tag, 0));
}

/// A word of a guard. Relaxed: a guard is a hint, nothing is published through it.
LAGOON_DEVICE u64 Look(const GuardRef& guard) {
  if (guard.done != nullptr) return LoadRelaxed(guard.done);
  return guard.word != nullptr ? LoadRelaxed(guard.word) : 0;
}

LAGOON_DEVICE bool Raised(const GuardRef& guard, u64 seen) {
  if (guard.done == nullptr && guard.word == nullptr) return false;
  if (guard.done != nullptr && TagOf(seen) != guard.tag) return false;
  return static_cast<int>(ValueOf(seen) - guard.limit) > 0;
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
      if (guards_[i].only_before_start == 0 && Raised(guards_[i], Look(guards_[i]))) return true;
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

/// The claims that have `tile`.
LAGOON_DEVICE u64* ClaimsOf(const RecordRef& record, u32 tile) { return record.claims + tile / 32; }

/// Takes the unclaimed tile `wanted`, or another one: the search begins at the word of `wanted`,
/// which was `seen`, and goes around the end. kNoTile: it found none.
LAGOON_DEVICE u32 Claim(const RecordRef& record, u32 wanted, u64 seen) {
  const u32 words = (record.blocks + 31) / 32;
  u32 preferred = u32{1} << (wanted % 32);
  u32 index = wanted / 32;
  for (u32 tried = 0; tried < words; ++tried, preferred = 0) {
    const u32 left = record.blocks - index * 32;
    const u32 all = left >= 32 ? ~u32{0} : (u32{1} << left) - 1;
    u64* const word = record.claims + index;
    if (tried > 0) seen = LoadRelaxed(word);
    for (;;) {
      const bool fresh = TagOf(seen) != record.tag;
      const u32 bits = fresh ? all : ValueOf(seen);
      if (bits == 0) break;
      const u32 tile = LowestBit((bits & preferred) != 0 ? preferred : bits);
      const u64 bit = u64{1} << tile;
      // Only the first claim in a word must compare: after it, the tag of the word stays. Acquire
      // pairs with Unclaim(): after the former owner's reads.
      const u64 before = fresh ? CompareExchangeAcquire(word, seen, Tagged(record.tag, all) & ~bit)
                               : FetchAndAcquire(word, ~bit);
      if (fresh ? before == seen : (before & bit) != 0) return index * 32 + tile;
      seen = fresh ? before : before & ~bit;
    }
    index = index + 1 == words ? 0 : index + 1;
  }
  return kNoTile;
}

/// Gives back a tile of which nothing was written.
LAGOON_DEVICE void Unclaim(const RecordRef& record, u32 tile) {
  OrRelease(ClaimsOf(record, tile), u64{1} << (tile % 32));
}

/// Call this after the barrier that follows the block's last write. The count must have the
/// record's tag. Returns the number of tiles done now.
LAGOON_DEVICE u32 Commit(const RecordRef& record) {
  Fence();  // the tile's data go with the count
  return ValueOf(FetchAdd(record.done, 1)) + 1;
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
