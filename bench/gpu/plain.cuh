#pragma once

// Entries that run a body without the block protocol, for benchmarks of what the protocol costs.

#include "device/cuda/gpu/entry.cuh"

namespace lagoon::cuda {

/// Runs one block on the tile of the same number. Reads no guard, claims and counts no tile, and
/// sends no notes.
template <typename Bodies, u32 kBytes>
LAGOON_DEVICE void RunPlainBlock(const SizedParams<kBytes>& params, unsigned char* shared) {
  const GuardRef none[kMaxGuards] = {};
  Bodies::Run(params.body, params.args, blockIdx.x, shared + kProtocolSharedBytes,
              BlockControl(none, /*looked=*/true));
}

}  // namespace lagoon::cuda

#if LAGOON_CUDA_COMPILER
#define LAGOON_CUDA_PLAIN_ENTRY(name, Bodies)                                              \
  extern "C" __global__ void __launch_bounds__(Bodies::kThreads, Bodies::kMinBlocks)       \
      name(const __grid_constant__ lagoon::cuda::SizedParams<Bodies::kArgsBytes> params) { \
    extern __shared__ __align__(128) unsigned char lagoon_shared[];                        \
    lagoon::cuda::RunPlainBlock<Bodies>(params, lagoon_shared);                            \
  }
#else
#define LAGOON_CUDA_PLAIN_ENTRY(name, Bodies)                                       \
  inline void name(const lagoon::cuda::GridParams& params, unsigned char* shared) { \
    lagoon::cuda::RunPlainBlock<Bodies>(params, shared);                            \
  }
#endif
