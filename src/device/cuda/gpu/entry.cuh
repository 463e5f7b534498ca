#pragma once

// Entry kernels: every block of a grid runs RunBlock() on the tiles of one launch.
//
// A class of bodies is a struct with
//   static constexpr u32 kThreads       threads of a block
//   static constexpr u32 kMinBlocks     blocks that an SM must hold: bounds the registers
//   static bool Run(u32 body, const void* args, u32 tile, unsigned char* shared,
//                   const BlockControl&)
// Run() is a switch over the bodies of the class. All threads of the block call it. `args` is
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
  /// block leaves even while it waits for a dependency.
  LAGOON_DEVICE u32 Next() {
    if (params_.tiles_per_block != 0 && taken_ == params_.tiles_per_block) return kNoTile;
    if (Revoked()) return kNoTile;
    for (u32 i = 0; i < params_.dep_count; ++i) {
      if (!Met(params_.deps[i])) return kNoTile;
    }
    const u32 tile = Claim(params_.record, wanted_);
    if (tile == kNoTile) return kNoTile;
    if (taken_++ == 0) TellPlaced();
    wanted_ = tile;
    return tile;
  }

  LAGOON_DEVICE void End(u32 tile, bool committed) {
    if (!committed) return Unclaim(params_.record, tile);
    const u32 done = Commit(params_.record);
    const bool tell = params_.count_interval != 0 && done % params_.count_interval == 0;
    if (tell || done == params_.record.blocks) Tell(Note::kCount, done);
  }

  LAGOON_DEVICE void Leave() {
    Fence();  // all reads and notes of this block come before
    if (TaggedAdd(&params_.state->left, params_.issue, 1) + 1 != gridDim.x) return;
    Fence();  // the notes of the other blocks come before the last ones
    const u64 done = LoadRelaxed(params_.record.done);
    const bool partly = TagOf(done) == params_.record.tag && ValueOf(done) < params_.record.blocks;
    if (partly && ValueOf(done) > 0) Tell(Note::kCount, ValueOf(done));
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

  LAGOON_DEVICE bool Revoked() const {
    bool started = params_.started != 0 || taken_ != 0;
    for (u32 i = 0; i < kMaxGuards; ++i) {
      const GuardRef& guard = params_.guards[i];
      if (!Raised(guard)) continue;
      if (guard.only_before_start == 0) return true;
      const u64 placed = LoadRelaxed(&params_.state->placed);
      started = started || (TagOf(placed) == params_.issue && ValueOf(placed) != 0);
      if (!started) return true;
    }
    return false;
  }

  LAGOON_DEVICE void TellPlaced() {
    const u64 placed = LoadRelaxed(&params_.state->placed);
    if (TagOf(placed) == params_.issue && ValueOf(placed) != 0) return;
    if (TaggedOr(&params_.state->placed, params_.issue, 1) == 0) Tell(Note::kPlaced, 0);
  }

  LAGOON_DEVICE void Tell(Note note, u32 value) {
    if (params_.ring.capacity == 0) return;
    Post(params_.ring, NoteEntry(note, params_.issue, value));
  }

  const GridParams& params_;
  u32 wanted_;
  u32 taken_ = 0;
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
    const bool committed = Bodies::Run(params.body, params.args + params.args_offset, tile,
                                       shared + kProtocolSharedBytes, control);
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
