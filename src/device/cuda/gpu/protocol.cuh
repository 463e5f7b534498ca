#pragma once

// The block protocol (docs/design/block-protocol.md) for a CUDA block. Thread 0 reads and decides.
// The other threads learn the decision at a barrier, so that all threads go the same way.

#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/gpu/portable.cuh"

namespace lagoon::cuda {

/// Makes `word`, which was `seen`, `value` under `tag` if it has another tag. No thread waits for
/// the answer: this comes before all that the thread does to the word later, and if the exchange
/// fails, another block has opened the word.
LAGOON_DEVICE void OpenWord(u64* word, u64 seen, u32 tag, u32 value = 0) {
  if (TagOf(seen) != tag) CompareExchange(word, seen, Tagged(tag, value));
}

/// A word of a guard. Relaxed: a guard is a hint, nothing is published through it.
LAGOON_DEVICE u64 Look(const GuardRef& guard) {
  if (guard.done != nullptr) return LoadRelaxed(guard.done);
  return guard.word != nullptr ? LoadRelaxed(guard.word) : 0;
}

LAGOON_DEVICE bool Raised(const GuardRef& guard, u64 seen) {
  if (guard.done == nullptr && guard.word == nullptr) return false;
  if (guard.done != nullptr && TagOf(seen) != guard.tag) return false;
  const u32 value = guard.done != nullptr ? DoneOf(seen, guard.blocks) : ValueOf(seen);
  return static_cast<int>(value - guard.limit) > 0;
}

/// What a body sees of its launch.
class BlockControl {
 public:
  /// `looked`: thread 0 has just read the guards, and none was raised.
  LAGOON_DEVICE explicit BlockControl(const GuardRef* guards, bool looked = false)
      : guards_(guards), looked_(looked) {}

  /// True in thread 0 when a guard asks the block to leave, false in all other threads: to be
  /// folded into a barrier that the body needs anyway. A loop may read it an iteration early.
  LAGOON_DEVICE bool ShouldLeave() const {
    if (threadIdx.x != 0) return false;
    u64 seen[kMaxGuards];  // no branch waits for a word before the caller needs the answer
    for (u32 i = 0; i < kMaxGuards; ++i) {
      seen[i] = guards_[i].only_before_start == 0 ? Look(guards_[i]) : 0;
    }
    bool leave = false;
    for (u32 i = 0; i < kMaxGuards; ++i) {
      leave |= guards_[i].only_before_start == 0 && Raised(guards_[i], seen[i]);
    }
    return leave;
  }

  /// A barrier; returns the same value in all threads. Bodies call it at most 20 us apart, the
  /// commit included. After true the body returns false, unless it has written something that
  /// others see.
  LAGOON_DEVICE bool SyncShouldLeave() const { return __syncthreads_or(ShouldLeave()) != 0; }
  /// The same as the first thing that a body does, when nothing may have changed.
  LAGOON_DEVICE bool SyncShouldStart() const { return looked_ || !SyncShouldLeave(); }

 private:
  const GuardRef* guards_;
  bool looked_;
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
      if (fresh) OpenWord(word, seen, record.tag, all);
      // Acquire pairs with Unclaim(): after the former owner's reads.
      const u64 before = FetchAndAcquire(word, ~bit);
      if ((before & bit) != 0) return index * 32 + tile;
      seen = before;
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
/// record's tag. Release: the tile's data go with the count. Returns the count's word of now.
LAGOON_DEVICE u64 Commit(const RecordRef& record, u32 left = 0) {
  return FetchAddAcqRel(record.done, 1 + left) + 1 + left;
}

LAGOON_DEVICE bool Met(const DepRef& dep) {
  const u64 count = LoadAcquire(dep.done);  // pairs with Commit()
  return TagOf(count) == dep.tag && DoneOf(count, dep.blocks) >= dep.blocks;
}

LAGOON_DEVICE void PutNote(const RingRef& ring, u64 position, u64 entry) {
  // One store, so that phase and entry come together. No fence: the note publishes only itself. The
  // capacity is a power of two, so one bit of the position says whether the lap is odd.
  StoreToHost(ring.entries + (position & (ring.capacity - 1)),
              entry | PhaseOfLap((position & ring.capacity) != 0 ? 1 : 0));
}

LAGOON_DEVICE void Post(const RingRef& ring, u64 entry) {
  PutNote(ring, FetchAdd(ring.head, 1), entry);
}

}  // namespace lagoon::cuda
