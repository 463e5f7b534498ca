#pragma once

// What a kernel on an Emulator can do. simt/cuda.h gives these functions CUDA's names. Call them
// only on the fiber of a thread.

#include <cstddef>
#include <cstdint>

#include "simt/emulator.h"

namespace lagoon::simt {

/// A place in the source.
struct Site {
  const char* file = "";
  int line = 0;

  bool operator==(const Site& other) const;
};

struct ThreadIndex {
  Dim3 thread, block, block_dim, grid_dim;
};
/// The indices of the running thread.
extern thread_local constinit ThreadIndex index;

/// Waits for all threads of the block and returns how many of them passed true. All must call it
/// from the same place.
unsigned Barrier(bool predicate, Site site);

/// The arguments of one warp call: what each lane in `mask` passed, and where its result goes. Null
/// for other lanes.
struct WarpCall {
  const void* in[32];
  void* out[32];
  std::uint32_t mask;
};
using WarpOp = void (*)(const WarpCall& call);
/// Waits until all lanes of `mask` have called with the same op and mask. Then `op` runs once.
void CallWarp(WarpOp op, std::uint32_t mask, const void* in, void* out, Site site);

/// Number of the thread in its warp.
unsigned LaneId();
unsigned MultiprocessorId();

/// Fills `target_bytes` of shared memory with ones at once. At the wait, copies `bytes` from
/// `source` and sets the rest of the `target_bytes` to zero.
void CopyAsync(void* target, const void* source, std::size_t bytes, std::size_t target_bytes);
void CommitCopies();
/// Waits until all but the latest `pending` groups have arrived.
void WaitCopies(unsigned pending);
/// Waits for all copies, committed or not.
void WaitAllCopies();

/// Lets another warp run: MayYield() now and then, Yield() always. Other threads may run between
/// any two steps of a thread, but this matters only at accesses that they can see.
void MayYield();
void Yield();

/// Makes the launch fail with this message.
[[noreturn]] void Trap(const char* message, Site site);

unsigned char* DynamicShared();

}  // namespace lagoon::simt
