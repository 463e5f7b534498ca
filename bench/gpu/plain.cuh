#pragma once

// The same bodies without the protocol, for benchmarks: what it costs is the difference.

#include "device/cuda/entry.cuh"

namespace lagoon::cuda {

/// One block: its tile is its number. No guard is read, nothing is claimed, counted or told. `body`
/// should be a constant: then no switch is left.
template <typename Bodies>
LAGOON_DEVICE void RunPlainBlock(u32 body, const LaunchTable& table, unsigned char* shared) {
  const GuardRef none[kMaxGuards] = {};
  Bodies::Run(body, table.args, blockIdx.x, shared + kProtocolSharedBytes, BlockControl(none));
}

}  // namespace lagoon::cuda

#if LAGOON_CUDA_COMPILER
#define LAGOON_CUDA_PLAIN_ENTRY(name, Bodies, body)                                  \
  extern "C" __global__ void __launch_bounds__(Bodies::kThreads, Bodies::kMinBlocks) \
      name(const __grid_constant__ lagoon::cuda::LaunchTable table) {                \
    extern __shared__ __align__(128) unsigned char lagoon_shared[];                  \
    lagoon::cuda::RunPlainBlock<Bodies>(body, table, lagoon_shared);                 \
  }
#else
#define LAGOON_CUDA_PLAIN_ENTRY(name, Bodies, body)                                 \
  inline void name(const lagoon::cuda::LaunchTable& table, unsigned char* shared) { \
    lagoon::cuda::RunPlainBlock<Bodies>(body, table, shared);                       \
  }
#endif
