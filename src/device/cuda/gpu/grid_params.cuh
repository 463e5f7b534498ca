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

// The count of a record of few tiles has a second count above it: how many blocks of the record's
// opening issue have left. So a block of that issue commits and leaves with one atomic.
inline constexpr u32 kLeftShift = 16;
inline constexpr u32 kMostOpenedTiles = (u32{1} << kLeftShift) - 1;
inline constexpr u32 kOneLeft = u32{1} << kLeftShift;

/// The number of tiles that are done, in a word of a record of `blocks` tiles.
LAGOON_SHARED_CONSTEXPR u32 DoneOf(u64 word, u32 blocks) {
  return blocks <= kMostOpenedTiles ? ValueOf(word) & kMostOpenedTiles : ValueOf(word);
}

/// A Progress record in device memory. It does the counting while launches name it.
struct RecordRef {
  u64* done;    // tagged count of committed tiles; DoneOf()
  u64* claims;  // tagged, 32 tiles per word; bit 1: unclaimed
  u32 tag;
  u32 blocks;
};

/// All tiles of a record must be done.
struct DepRef {
  const u64* done;
  u32 tag;
  u32 blocks;  // of the record
};

/// Asks blocks to leave while int32(word - limit) > 0.
struct GuardRef {
  const u32* word;  // null: no guard word
  u32 limit;
  u32 only_before_start;  // 1: counts until the launch's first claim
  const u64* done;        // not null: the guard is on this record's count, valid if it has the tag
  u32 tag;
  u32 blocks;  // of that record
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

/// Words that the blocks of one issue share, in device memory. An opening issue counts who leaves
/// in its record.
struct IssueState {
  u64 placed;  // tagged: 1: a tile has been claimed
  u64 left;    // tagged: number of blocks that have left
};

/// What the protocol needs to know. A launch may be issued several times, until its kernel is
/// complete or revoked.
struct alignas(kArgsAlignment) GridHeader {
  IssueState* state;
  RingRef ring;
  u32 issue;    // tag of `state`; its lower 24 bits name the issue in notifications
  u32 started;  // 1: a block of an earlier issue of the launch has claimed a tile
  RecordRef record;
  GuardRef guards[kMaxGuards];
  DepRef deps[kMaxDeps];
  u32 dep_count;
  u32 body;             // number of the body in the entry
  u32 opening;          // 1: the first issue of a record, with a block for each of its tiles
  u32 tiles_per_block;  // 0: claim until nothing is left
  u32 count_interval;   // kCount after every so many tiles; 0: only when complete
};

/// The parameter of an entry whose bodies take kBytes of arguments. Few bytes are faster to launch.
template <u32 kBytes>
struct SizedParams : GridHeader {
  alignas(kArgsAlignment) unsigned char args[kBytes];
};
/// The parameter of any entry: the host fills this one, and the driver copies what the entry has.
using GridParams = SizedParams<kArgsBytes>;
static_assert(sizeof(GridParams) <= 4096, "a kernel's parameters");
static_assert(sizeof(GridParams) == sizeof(GridHeader) + kArgsBytes &&
                  sizeof(SizedParams<16>) == sizeof(GridHeader) + 16,
              "the arguments begin at the same place in every entry");

/// Bytes of shared memory that the protocol takes in front of the body's.
inline constexpr u32 kProtocolSharedBytes = 128;

}  // namespace lagoon::cuda
