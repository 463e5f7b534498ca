#pragma once

// What a launch hands to its blocks: one kernel parameter, built by the host.

#include "device/cuda/gpu/types.cuh"

namespace lagoon::cuda {

inline constexpr u32 kMaxDeps = 4;  // the host waits for further ones
inline constexpr u32 kMaxGuards = 2;
inline constexpr u32 kArgsBytes = 3072;
inline constexpr u32 kArgsAlignment = 16;

// Words that several launches use one after another carry a tag in their upper half. A word with
// another tag counts as untouched (0, or all tiles unclaimed), so no launch has to clear it.
LAGOON_SHARED_CONSTEXPR u64 Tagged(u32 tag, u32 value) { return u64{tag} << 32 | value; }
LAGOON_SHARED_CONSTEXPR u32 TagOf(u64 word) { return static_cast<u32>(word >> 32); }
LAGOON_SHARED_CONSTEXPR u32 ValueOf(u64 word) { return static_cast<u32>(word); }

/// A Progress record in device memory. It does the counting while launches name it.
struct RecordRef {
  u64* done;    // tagged count of committed tiles
  u64* claims;  // tagged, 32 tiles per word; bit 1: unclaimed
  u32 tag;
  u32 blocks;
};

struct DepRef {
  const u64* done;
  u32 tag;
  u32 blocks;
};

/// Asks blocks to leave while int32(word - limit) > 0.
struct GuardRef {
  const u32* word;  // null: no guard word
  u32 limit;
  u32 only_before_start;  // 1: counts until the launch's first claim
  const u64* done;        // not null: the guard is on this record's count, valid if it has the tag
  u32 tag;
  u32 unused;
};

/// Notifications go into pinned host memory. Entry i of lap l is valid once its phase bit is that
/// of the lap. The host reserves room before it issues a grid, so that the ring cannot overflow.
struct RingRef {
  u64* entries;  // host memory
  u64* head;     // device memory: number of entries ever posted
  u32 capacity;  // a power of two; 0: no notifications
  u32 unused;
};

/// 63 phase | 60..62 kind | 56..59 unused | 32..55 issue | 0..31 value
enum class Note : u32 {
  kPlaced = 1,  // the first claim in this issue
  kCount = 2,   // value tiles of the record are done
  kEnded = 3,   // the last block of the issue has left
};
LAGOON_SHARED_CONSTEXPR u64 NoteEntry(Note kind, u32 issue, u32 value) {
  return u64{static_cast<u32>(kind)} << 60 | u64{issue & 0xffffff} << 32 | value;
}
LAGOON_SHARED_CONSTEXPR u64 PhaseOfLap(u64 lap) { return (~lap & 1) << 63; }

/// Words that the blocks of one issue share, in device memory.
struct IssueState {
  u64 placed;  // tagged: 1: a tile has been claimed
  u64 left;    // tagged: number of blocks that have left
};

/// A launch may be issued several times, until its kernel is complete or revoked.
struct GridParams {
  IssueState* state;
  RingRef ring;
  u32 issue;    // tag of `state`; its lower 24 bits name the issue in notifications
  u32 started;  // 1: a block of an earlier issue of the launch has claimed a tile
  RecordRef record;
  GuardRef guards[kMaxGuards];
  DepRef deps[kMaxDeps];
  u32 dep_count;
  u32 body;             // number of the body in the entry
  u32 tiles_per_block;  // 0: claim until nothing is left
  u32 count_interval;   // kCount after every so many tiles; 0: only when complete
  alignas(kArgsAlignment) unsigned char args[kArgsBytes];
};
static_assert(sizeof(GridParams) <= 4096, "a kernel's parameters");

/// Bytes of shared memory that the protocol takes in front of the body's.
inline constexpr u32 kProtocolSharedBytes = 128;

}  // namespace lagoon::cuda
