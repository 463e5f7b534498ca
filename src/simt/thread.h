#pragma once

// What a kernel that runs on a Machine can do, beneath the names of CUDA (simt/cuda.h). Everything
// here is called on the fiber of a thread.

#include <cstddef>
#include <cstdint>

#include "simt/machine.h"

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
/// Of the thread that runs.
extern thread_local constinit ThreadIndex index;

/// Waits for all threads of the block; how many of them passed true. All must come from one place.
unsigned Barrier(bool predicate, Site site);

/// Of the lanes in `mask`, in one call: what each of them passed, and where its result goes. Null
/// for lanes that are not in it.
struct WarpCall {
  const void* in[32];
  void* out[32];
  std::uint32_t mask;
};
using WarpOp = void (*)(const WarpCall& call);
/// Waits until all lanes of `mask` have called with the same op and mask, then computes it once.
void CallWarp(WarpOp op, std::uint32_t mask, const void* in, void* out, Site site);

/// The thread's lane of its warp.
unsigned LaneId();
unsigned MultiprocessorId();

/// Copies `bytes` to shared memory at the wait, and fills `poison_bytes` from `target` on with ones
/// before: the rest of them becomes zero.
void CopyAsync(void* target, const void* source, std::size_t bytes, std::size_t target_bytes);
void CommitCopies();
/// Until all but the latest `pending` groups have arrived.
void WaitCopies(unsigned pending);
/// All copies, committed or not.
void WaitAllCopies();

/// Lets another warp run, now and then or always: between any two steps of a thread others may run,
/// but the accesses that others can see are where it matters.
void MayYield();
void Yield();

/// The launch fails, with this message.
[[noreturn]] void Trap(const char* message, Site site);

unsigned char* DynamicShared();

}  // namespace lagoon::simt
