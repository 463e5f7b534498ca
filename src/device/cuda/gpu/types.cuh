#pragma once

// What host and device code share, for nvcc, NVRTC (no standard headers) and C++ compilers.

#if defined(__CUDACC__)
#define LAGOON_CUDA_COMPILER 1
#define LAGOON_SHARED_CONSTEXPR __host__ __device__ constexpr
#else
#define LAGOON_CUDA_COMPILER 0
#define LAGOON_SHARED_CONSTEXPR constexpr
#endif

namespace lagoon::cuda {

// The widths that CUDA's atomics take.
using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8);

}  // namespace lagoon::cuda
