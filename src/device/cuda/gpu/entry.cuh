#pragma once

// Entry kernels: every block of a grid runs RunBlock() on the tiles of one launch.
//
// What an entry runs is a struct with
//   static constexpr u32 kThreads       threads of a block
//   static constexpr u32 kMinBlocks     blocks that an SM must hold: bounds the registers
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
  LAGOON_DEVICE explicit BlockRole(const GridParams& params)
      : params_(params), wanted_(FirstWanted(params)) {}

  /// Returns a claimed tile or kNoTile. Checks guards, then dependencies, then claims: a revoked
  /// block leaves even while it waits for a dependency. All loads go out before the first answer
  /// is used: each takes the GPU half a microsecond.
  LAGOON_DEVICE u32 Next() {
    if (params_.tiles_per_block != 0 && taken_ == params_.tiles_per_block) return kNoTile;
    u64 guards[kMaxGuards];
    for (u32 i = 0; i < kMaxGuards; ++i) guards[i] = Look(params_.guards[i]);
    const u64 placed = LoadRelaxed(&params_.state->placed);
    const u64 claims = LoadRelaxed(ClaimsOf(params_.record, wanted_));
    if (taken_ == 0) {
      const u64 done = LoadRelaxed(params_.record.done);
      const u64 left = LoadRelaxed(&params_.state->left);
      OpenWord(params_.record.done, done, params_.record.tag);
      OpenWord(&params_.state->left, left, params_.issue);
    }
    const bool met = AllMet();
    if (Revoked(guards, placed) || !met) return kNoTile;
    const u32 tile = Claim(params_.record, wanted_, claims);
    if (tile == kNoTile) return kNoTile;
    if (taken_++ == 0) MarkPlaced(placed);
    wanted_ = tile;
    return tile;
  }

  /// Call this after the barrier behind Next(), so that the body need not wait for the answer.
  LAGOON_DEVICE void TellPlaced() {
    if (marks_ && placed_before_ == placed_seen_) Tell(Note::kPlaced, 0);
    marks_ = false;
  }

  LAGOON_DEVICE void End(u32 tile, bool committed) {
    if (!committed) {
      fenced_ = false;
      return Unclaim(params_.record, tile);
    }
    const u32 done = Commit(params_.record);
    fenced_ = true;
    completed_ = done == params_.record.blocks;
    const bool tell = params_.count_interval != 0 && done % params_.count_interval == 0;
    if (tell || completed_) Tell(Note::kCount, done);
  }

  LAGOON_DEVICE void Leave() {
    // All reads and notes of this block come before. The fence of its last commit does that too, if
    // no note came after it; and that commit's count is at its place, as End() has used the answer.
    if (!fenced_) Fence();
    if (ValueOf(FetchAdd(&params_.state->left, 1)) + 1 != gridDim.x) return;
    Fence();  // the notes of the other blocks come before the last ones
    if (!completed_) TellPart();
    Tell(Note::kEnded, 0);
  }

 private:
  // The tiles that a relaunch has to do are the last ones, apart from a few: blocks claim tiles in
  // their order. From the front, each block would search the whole record for one.
  static LAGOON_DEVICE u32 FirstWanted(const GridParams& params) {
    const u32 blocks = params.record.blocks;
    const bool one_each = params.tiles_per_block == 1 && blocks > gridDim.x;
    const u32 wanted = (one_each ? blocks - gridDim.x : 0) + blockIdx.x;
    return wanted < blocks ? wanted : 0;
  }

  LAGOON_DEVICE bool AllMet() const {
    for (u32 i = 0; i < params_.dep_count; ++i) {
      if (!Met(params_.deps[i])) return false;
    }
    return true;
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

  // The word holds 1 under this issue's tag from the first claim on.
  LAGOON_DEVICE void MarkPlaced(u64 seen) {
    if (IsPlaced(seen)) return;
    marks_ = true;
    placed_seen_ = seen;
    placed_before_ = CompareExchange(&params_.state->placed, seen, Tagged(params_.issue, 1));
  }

  LAGOON_DEVICE void TellPart() {
    const u64 done = LoadRelaxed(params_.record.done);
    const bool partly = TagOf(done) == params_.record.tag && ValueOf(done) < params_.record.blocks;
    if (partly && ValueOf(done) > 0) Tell(Note::kCount, ValueOf(done));
  }

  LAGOON_DEVICE void Tell(Note note, u32 value) {
    if (params_.ring.capacity == 0) return;
    fenced_ = false;
    Post(params_.ring, NoteEntry(note, params_.issue, value));
  }

  const GridParams& params_;
  u32 wanted_;
  u32 taken_ = 0;
  bool fenced_ = false;     // nothing that others must see came after the last fence
  bool completed_ = false;  // this block's last commit completed the record, and it has told so
  // An exchange of the word `placed` on its way: it takes effect if the word is still the seen one.
  bool marks_ = false;
  u64 placed_seen_ = 0, placed_before_ = 0;
};

/// Runs one block of a launch. `shared`: aligned to 128 bytes.
template <typename Bodies>
LAGOON_DEVICE void RunBlock(const GridParams& params, unsigned char* shared) {
  u32& next = *reinterpret_cast<u32*>(shared);
  const bool reader = threadIdx.x == 0;
  BlockRole role(params);
  const BlockControl control(params.guards);
  for (;;) {
    if (reader) next = role.Next();
    __syncthreads();
    const u32 tile = next;
    if (tile == kNoTile) break;
    if (reader) role.TellPlaced();
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
#define LAGOON_CUDA_ENTRY(name, Bodies)                                              \
  extern "C" __global__ void __launch_bounds__(Bodies::kThreads, Bodies::kMinBlocks) \
      name(const __grid_constant__ lagoon::cuda::GridParams params) {                \
    extern __shared__ __align__(128) unsigned char lagoon_shared[];                  \
    lagoon::cuda::RunBlock<Bodies>(params, lagoon_shared);                           \
  }
#else
#define LAGOON_CUDA_ENTRY(name, Bodies)                                             \
  inline void name(const lagoon::cuda::GridParams& params, unsigned char* shared) { \
    lagoon::cuda::RunBlock<Bodies>(params, shared);                                 \
  }
#endif
