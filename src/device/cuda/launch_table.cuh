#pragma once

// What a launch hands to its blocks: one kernel parameter, built by the host.

#include "device/cuda/types.cuh"

namespace lagoon::cuda {

inline constexpr u32 kMaxSegments = 4;
inline constexpr u32 kMaxDeps = 4;       // of one segment; the host waits for the others itself
inline constexpr u32 kMaxGuards = 2;     // of one segment
inline constexpr u32 kArgsBytes = 3072;  // of all segments of a launch
inline constexpr u32 kArgsAlignment = 16;

// Words that several launches use after one another carry a tag in their upper half. One with
// another tag counts as untouched (0, or all tiles unclaimed), so that nobody has to clear it.
LAGOON_SHARED_CONSTEXPR u64 Tagged(u32 tag, u32 value) { return u64{tag} << 32 | value; }
LAGOON_SHARED_CONSTEXPR u32 TagOf(u64 word) { return static_cast<u32>(word >> 32); }
LAGOON_SHARED_CONSTEXPR u32 ValueOf(u64 word) { return static_cast<u32>(word); }

/// A Progress record in device memory: the one that counts while launches name it.
struct RecordRef {
  u64* done;    // tagged count of committed tiles
  u64* claims;  // tagged, 32 tiles a word: 1 is unclaimed
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
  const u32* word;  // null: no guard. Of a done count: its lower half
  u32 limit;
  u32 only_before_start;  // 1: counts until the launch's first claim
  const u64* done;        // not null: the word is this record's count, valid if it has the tag
  u32 tag;
  u32 unused;
};

/// Notifications go into pinned host memory: entry i of lap l is valid once its phase bit is that
/// of the lap. The host sees to it that no more are under way than there is room for.
struct RingRef {
  u64* entries;  // host memory
  u64* head;     // device memory: how many were ever posted
  u32 capacity;  // a power of two; 0: nobody is told
  u32 unused;
};

/// 63 phase | 60..62 kind | 56..59 segment | 32..55 issue | 0..31 value
enum class Note : u32 {
  kPlaced = 1,  // the first claim of the segment in this issue
  kCount = 2,   // value tiles of the segment's record are done
  kEnded = 3,   // the last block of the issue has left
};
LAGOON_SHARED_CONSTEXPR u64 NoteEntry(Note kind, u32 segment, u32 issue, u32 value) {
  return u64{static_cast<u32>(kind)} << 60 | u64{segment} << 56 | u64{issue & 0xffffff} << 32 |
         value;
}
LAGOON_SHARED_CONSTEXPR u64 PhaseOfLap(u64 lap) { return (~lap & 1) << 63; }

struct SegmentRef {
  RecordRef record;
  GuardRef guards[kMaxGuards];
  DepRef deps[kMaxDeps];
  u32 dep_count;
  u32 body;             // which one of the entry's
  u32 args_offset;      // into LaunchTable::args
  u32 claimants;        // blocks of the grid that work on it
  u32 tiles_per_block;  // 0: claim until nothing is left
  u32 count_interval;   // kCount after so many tiles; 0: only when complete
};

/// What one issue's blocks share, in device memory.
struct IssueState {
  u64 ticket;  // tagged: blocks that chose their role
  u64 placed;  // tagged: bit s, segment s has been claimed from
  u64 left;    // tagged: blocks that have left
};

/// A launch may be issued several times, until its kernels are complete or revoked.
struct LaunchTable {
  IssueState* state;
  RingRef ring;
  u32 issue;    // tag of `state`, and its lower 24 bits the name in notifications
  u32 started;  // 1: an earlier issue of the launch has claimed
  u32 segment_count;
  u32 unused;
  SegmentRef segments[kMaxSegments];
  alignas(kArgsAlignment) unsigned char args[kArgsBytes];
};
static_assert(sizeof(LaunchTable) <= 4096, "a kernel's parameters");

/// What the protocol keeps in front of a body's shared memory.
inline constexpr u32 kProtocolSharedBytes = 128;

}  // namespace lagoon::cuda
