#pragma once

// Entry kernels: every block of a grid runs RunBlock() on the tiles of one launch.
//
// What an entry runs is a struct with
//   static constexpr u32 kThreads       threads of a block
//   static constexpr u32 kMinBlocks     blocks that an SM must hold: bounds the registers
//   static constexpr u32 kArgsBytes     bytes of `args`, of the largest body
//   static bool Run(u32 body, const void* args, u32 tile, unsigned char* shared,
//                   const BlockControl&)
// Run() may be a switch over several bodies. All threads of the block call it. `args` is
// aligned to 16 bytes and `shared` to 128; shared memory is undefined at the start. Run() returns
// the same in all threads: true if it has written its tile; false if SyncShouldLeave() was true and
// it has written nothing. It may return without a barrier behind its last write, but must have
// waited for its cp.async groups.

#include "device/cuda/gpu/protocol.cuh"

namespace lagoon::cuda {

/// Thread 0's view of the launch that its block works on.
class BlockRole {
 public:
  LAGOON_DEVICE explicit BlockRole(const GridHeader& params)
      : params_(params), wanted_(FirstWanted(params)) {}

  /// Returns a claimed tile or kNoTile. Checks guards, then dependencies, then claims: a revoked
  /// block leaves even while it waits for a dependency. All loads go out before the first answer
  /// is used: each takes the GPU half a microsecond. Dependencies are the last ones, as no load
  /// overtakes an acquiring one.
  LAGOON_DEVICE u32 Next() {
    if (params_.tiles_per_block != 0 && taken_ == params_.tiles_per_block) return kNoTile;
    u64 guards[kMaxGuards];
    for (u32 i = 0; i < kMaxGuards; ++i) guards[i] = Look(params_.guards[i]);
    const u64 placed = FirstTellsPlaced() ? 0 : LoadRelaxed(&params_.state->placed);
    const u64 claims = LoadRelaxed(ClaimsOf(params_.record, wanted_));
    u64 done = 0, left = 0;
    if (taken_ == 0) {
      done = LoadRelaxed(params_.record.done);
      if (params_.opening == 0) left = LoadRelaxed(&params_.state->left);
    }
    const bool met = AllMet();
    if (taken_ == 0) {
      OpenWord(params_.record.done, done, params_.record.tag);
      if (params_.opening == 0) OpenWord(&params_.state->left, left, params_.issue);
    }
    if (Revoked(guards, placed) || !met) return kNoTile;
    const u32 tile = Claim(params_.record, wanted_, claims);
    if (tile == kNoTile) return kNoTile;
    if (taken_++ == 0) MarkPlaced(placed);
    wanted_ = tile;
    return tile;
  }

  /// Call this after the barrier behind Next(), so that the other threads need not wait for the
  /// answer.
  LAGOON_DEVICE void TellPlaced() {
    if (marks_ && placed_before_ == placed_seen_) Tell(Note::kPlaced, 0);
    marks_ = false;
  }

  LAGOON_DEVICE void End(u32 tile, bool committed) {
    if (!committed) {
      fenced_ = false;
      Unclaim(params_.record, tile);
      if (FirstTellsPlaced() && blockIdx.x != 0) TellPlacedLate();
      return;
    }
    // The blocks that tell of a count are chosen by their tile: they know it before they count.
    const bool tells =
        params_.count_interval != 0 && tile % params_.count_interval == params_.count_interval - 1;
    if (params_.opening != 0 && !tells) {
      gone_ = true;
      return LeaveWith(Commit(params_.record, kOneLeft));
    }
    const u32 done = DoneOf(Commit(params_.record), params_.record.blocks);
    fenced_ = true;
    completed_ = done == params_.record.blocks;
    if (tells || completed_) Tell(Note::kCount, done);
  }

  LAGOON_DEVICE void Leave() {
    if (gone_) return;
    if (params_.opening != 0) {
      const u64 before = FetchAddAcqRel(params_.record.done, kOneLeft);
      return LeaveWith(before + kOneLeft);
    }
    // All reads and notes of this block come before. Its last commit orders them too, if no note
    // came after it; and that commit's count is at its place, as End() has used the answer.
    if (!fenced_) Fence();
    if (ValueOf(FetchAdd(&params_.state->left, 1)) + 1 != gridDim.x) return;
    Fence();  // the notes of the other blocks come before the last ones
    TellEnded(completed_ ? 0 : DoneNow());
  }

 private:
  // The tiles that a relaunch has to do are the last ones, apart from a few: blocks claim tiles in
  // their order. From the front, each block would search the whole record for one.
  static LAGOON_DEVICE u32 FirstWanted(const GridHeader& params) {
    const u32 blocks = params.record.blocks;
    const bool one_each = params.tiles_per_block == 1 && blocks > gridDim.x;
    const u32 wanted = (one_each ? blocks - gridDim.x : 0) + blockIdx.x;
    return wanted < blocks ? wanted : 0;
  }

  LAGOON_DEVICE bool AllMet() const {
    bool met = true;
    for (u32 i = 0; i < params_.dep_count; ++i) met = Met(params_.deps[i]) && met;
    return met;
  }

  LAGOON_DEVICE bool IsPlaced(u64 placed) const {
    return TagOf(placed) == params_.issue && ValueOf(placed) != 0;
  }

  LAGOON_DEVICE bool Revoked(const u64 (&guards)[kMaxGuards], u64 placed) const {
    const bool started = params_.started != 0 || taken_ != 0 || IsPlaced(placed);
    for (u32 i = 0; i < kMaxGuards; ++i) {
      const GuardRef& guard = params_.guards[i];
      if (Raised(guard, guards[i]) && (guard.only_before_start == 0 || !started)) return true;
    }
    return false;
  }

  // True if block 0 says that the launch has begun, as the hardware begins with that block. Other
  // launches need the word `placed`: no guard of theirs may stop blocks after the first claim.
  LAGOON_DEVICE bool FirstTellsPlaced() const {
    return params_.opening != 0 && params_.guards[0].only_before_start == 0 &&
           params_.guards[1].only_before_start == 0;
  }

  // The word holds 1 under this issue's tag from the first claim on.
  LAGOON_DEVICE void MarkPlaced(u64 seen) {
    if (FirstTellsPlaced()) {
      marks_ = blockIdx.x == 0;
      return;
    }
    if (IsPlaced(seen)) return;
    marks_ = true;
    placed_seen_ = seen;
    placed_before_ = CompareExchange(&params_.state->placed, seen, Tagged(params_.issue, 1));
  }

  // The first block that began and gives back its tile says that the launch has begun:
  // block 0 may never have. The host hears of blocks that commit, and takes one word for it.
  LAGOON_DEVICE void TellPlacedLate() {
    const u64 seen = LoadRelaxed(&params_.state->placed);
    if (IsPlaced(seen)) return;
    const u64 before = CompareExchange(&params_.state->placed, seen, Tagged(params_.issue, 1));
    if (before == seen) Tell(Note::kPlaced, 0);
  }

  // `word`: the record's count, with this block among those that left an opening issue.
  LAGOON_DEVICE void LeaveWith(u64 word) {
    if (ValueOf(word) >> kLeftShift == gridDim.x) {
      TellEnded(DoneOf(word, params_.record.blocks));
    }
  }

  LAGOON_DEVICE u32 DoneNow() const {
    const u64 done = LoadRelaxed(params_.record.done);
    if (TagOf(done) != params_.record.tag) return 0;
    const u32 count = DoneOf(done, params_.record.blocks);
    // Who completed the record has told so.
    return count < params_.record.blocks ? count : 0;
  }

  // The last notes: how many tiles are done (0: not to be told), and that the issue has ended.
  LAGOON_DEVICE void TellEnded(u32 done) {
    const RingRef& ring = params_.ring;
    if (ring.capacity == 0) return;
    const u32 count = done != 0 ? 1 : 0;
    const u64 position = FetchAdd(ring.head, count + 1);
    if (done != 0) PutNote(ring, position, NoteEntry(Note::kCount, params_.issue, done));
    PutNote(ring, position + count, NoteEntry(Note::kEnded, params_.issue, 0));
  }

  LAGOON_DEVICE void Tell(Note note, u32 value) {
    if (params_.ring.capacity == 0) return;
    fenced_ = false;
    Post(params_.ring, NoteEntry(note, params_.issue, value));
  }

  const GridHeader& params_;
  u32 wanted_;
  u32 taken_ = 0;
  bool gone_ = false;  // counted among those that left
  // Nothing that others must see came after the last fence: so it is in a block that has claimed
  // nothing, which needs no fence to leave.
  bool fenced_ = true;
  bool completed_ = false;  // this block's last commit completed the record, and it has told so
  // An exchange of the word `placed` on its way: it takes effect if the word is still the seen one.
  bool marks_ = false;
  u64 placed_seen_ = 0, placed_before_ = 0;
};

/// Runs one block of a launch. `shared`: aligned to 128 bytes.
template <typename Bodies, u32 kBytes>
LAGOON_DEVICE void RunBlock(const SizedParams<kBytes>& params, unsigned char* shared) {
  u32& next = *reinterpret_cast<u32*>(shared);
  const bool reader = threadIdx.x == 0;
  BlockRole role(params);
  for (;;) {
    if (reader) next = role.Next();
    __syncthreads();
    const u32 tile = next;
    if (tile == kNoTile) break;
    if (reader) role.TellPlaced();
    const BlockControl control(params.guards, /*looked=*/true);
    const bool committed =
        Bodies::Run(params.body, params.args, tile, shared + kProtocolSharedBytes, control);
    __syncthreads();  // behind all threads' last writes, and before `next` changes
    if (reader) role.End(tile, committed);
    if (!committed) break;
  }
  if (reader) role.Leave();
}

}  // namespace lagoon::cuda

// LAGOON_CUDA_ENTRY(name, Bodies): the entry kernel of a class of bodies. For a C++ compiler: a
// function that runs one thread of a block, to be called by a simt::Emulator.
#if LAGOON_CUDA_COMPILER
#define LAGOON_CUDA_ENTRY(name, Bodies)                                                    \
  extern "C" __global__ void __launch_bounds__(Bodies::kThreads, Bodies::kMinBlocks)       \
      name(const __grid_constant__ lagoon::cuda::SizedParams<Bodies::kArgsBytes> params) { \
    extern __shared__ __align__(128) unsigned char lagoon_shared[];                        \
    lagoon::cuda::RunBlock<Bodies>(params, lagoon_shared);                                 \
  }
#else
#define LAGOON_CUDA_ENTRY(name, Bodies)                                             \
  inline void name(const lagoon::cuda::GridParams& params, unsigned char* shared) { \
    lagoon::cuda::RunBlock<Bodies>(params, shared);                                 \
  }
#endif
