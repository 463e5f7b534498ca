#pragma once

// Entry kernels: every block of a grid runs RunBlock() on the segments of one launch.
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

struct BlockState {
  u32 segment;
  u32 tile;
};
static_assert(sizeof(BlockState) <= kProtocolSharedBytes);

/// Thread 0's view of the segment that its block works on.
class BlockRole {
 public:
  LAGOON_DEVICE explicit BlockRole(const GridParams& params) : params_(params) {}

  /// Call this once, before the other methods. Roles are given out in order of arrival, those of
  /// the first segment first, because the order in which the hardware starts blocks is not
  /// documented.
  LAGOON_DEVICE void Choose() {
    u32 place = blockIdx.x;
    if (params_.segment_count > 1) {
      place = TaggedAdd(&params_.state->ticket, params_.issue, 1);
      while (segment_ + 1 < params_.segment_count && place >= segment().claimants) {
        place -= segment().claimants;
        ++segment_;
      }
    }
    wanted_ = place < segment().record.blocks ? place : 0;
  }

  LAGOON_DEVICE u32 index() const { return segment_; }

  /// Returns a claimed tile or kNoTile. Checks guards, then dependencies, then claims: a revoked
  /// block leaves even while it waits for a dependency.
  LAGOON_DEVICE u32 Next() {
    const SegmentRef& mine = segment();
    if (mine.tiles_per_block != 0 && taken_ == mine.tiles_per_block) return kNoTile;
    if (Revoked(mine)) return kNoTile;
    for (u32 i = 0; i < mine.dep_count; ++i) {
      if (!Met(mine.deps[i])) return kNoTile;
    }
    const u32 tile = Claim(mine.record, wanted_);
    if (tile == kNoTile) return kNoTile;
    if (taken_++ == 0) TellPlaced();
    wanted_ = tile;
    return tile;
  }

  LAGOON_DEVICE void End(u32 tile, bool committed) {
    const SegmentRef& mine = segment();
    if (!committed) return Unclaim(mine.record, tile);
    const u32 done = Commit(mine.record);
    const bool tell = mine.count_interval != 0 && done % mine.count_interval == 0;
    if (tell || done == mine.record.blocks) Tell(Note::kCount, done);
  }

  LAGOON_DEVICE void Leave() {
    Fence();  // all reads and notes of this block come before
    if (TaggedAdd(&params_.state->left, params_.issue, 1) + 1 != gridDim.x) return;
    Fence();  // the notes of the other blocks come before the last ones
    for (segment_ = 0; segment_ < params_.segment_count; ++segment_) {
      const RecordRef& record = segment().record;
      const u64 done = LoadRelaxed(record.done);
      const bool partly = TagOf(done) == record.tag && ValueOf(done) < record.blocks;
      if (partly && ValueOf(done) > 0) Tell(Note::kCount, ValueOf(done));
    }
    segment_ = 0;
    Tell(Note::kEnded, 0);
  }

 private:
  LAGOON_DEVICE const SegmentRef& segment() const { return params_.segments[segment_]; }

  LAGOON_DEVICE bool Revoked(const SegmentRef& mine) const {
    bool started = params_.started != 0 || taken_ != 0;
    for (u32 i = 0; i < kMaxGuards; ++i) {
      const GuardRef& guard = mine.guards[i];
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
    const u32 bit = u32{1} << segment_;
    if (TagOf(placed) == params_.issue && (ValueOf(placed) & bit) != 0) return;
    if ((TaggedOr(&params_.state->placed, params_.issue, bit) & bit) == 0) Tell(Note::kPlaced, 0);
  }

  LAGOON_DEVICE void Tell(Note note, u32 value) {
    if (params_.ring.capacity == 0) return;
    Post(params_.ring, NoteEntry(note, segment_, params_.issue, value));
  }

  const GridParams& params_;
  u32 segment_ = 0;
  u32 wanted_ = 0;
  u32 taken_ = 0;
};

/// Runs one block of a launch. `shared`: aligned to 128 bytes.
template <typename Bodies>
LAGOON_DEVICE void RunBlock(const GridParams& params, unsigned char* shared) {
  BlockState& state = *reinterpret_cast<BlockState*>(shared);
  const bool reader = threadIdx.x == 0;
  BlockRole role(params);
  if (reader) role.Choose();
  for (;;) {
    if (reader) {
      state.tile = role.Next();
      state.segment = role.index();
    }
    __syncthreads();
    const u32 tile = state.tile;
    if (tile == kNoTile) break;
    const SegmentRef& segment = params.segments[state.segment];
    const BlockControl control(segment.guards);
    const bool committed = Bodies::Run(segment.body, params.args + segment.args_offset, tile,
                                       shared + kProtocolSharedBytes, control);
    __syncthreads();  // behind all threads' last writes, and before `state` changes
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
