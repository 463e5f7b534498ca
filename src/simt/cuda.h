#pragma once

// CUDA's names for a C++ compiler: the source of a kernel that includes this runs on an Emulator.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simt/thread.h"

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (::lagoon::simt::index.thread)
#define blockIdx (::lagoon::simt::index.block)
#define blockDim (::lagoon::simt::index.block_dim)
#define gridDim (::lagoon::simt::index.grid_dim)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace lagoon::simt {

template <typename T>
struct ShuffleIn {
  T value;
  unsigned argument;
};

template <typename T, unsigned (*kSource)(unsigned lane, unsigned argument)>
void Shuffle(const WarpCall& call) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((call.mask >> lane & 1) == 0) continue;
    const unsigned argument = static_cast<const ShuffleIn<T>*>(call.in[lane])->argument;
    const unsigned source = kSource(lane, argument);
    // The value of a lane outside of the mask is undefined: all bits set, so that its use shows.
    T value;
    std::memset(&value, 0xff, sizeof(value));
    if (source < 32 && (call.mask >> source & 1) != 0) {
      value = static_cast<const ShuffleIn<T>*>(call.in[source])->value;
    }
    *static_cast<T*>(call.out[lane]) = value;
  }
}

inline unsigned ShuffleXor(unsigned lane, unsigned mask) { return lane ^ mask; }
inline unsigned ShuffleIndex(unsigned, unsigned source) { return source % 32; }
inline unsigned ShuffleUp(unsigned lane, unsigned delta) {
  return lane >= delta ? lane - delta : lane;
}
inline unsigned ShuffleDown(unsigned lane, unsigned delta) {
  return lane + delta < 32 ? lane + delta : lane;
}

template <unsigned (*kSource)(unsigned, unsigned), typename T>
T CallShuffle(unsigned mask, T value, unsigned argument, Site site) {
  const ShuffleIn<T> in{value, argument};
  T out;
  CallWarp(Shuffle<T, kSource>, mask, &in, &out, site);
  return out;
}

inline void Ballot(const WarpCall& call) {
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((call.mask >> lane & 1) != 0 && *static_cast<const bool*>(call.in[lane]))
      bits |= 1u << lane;
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((call.mask >> lane & 1) != 0) *static_cast<unsigned*>(call.out[lane]) = bits;
  }
}

inline void SyncWarp(const WarpCall&) {}

}  // namespace lagoon::simt

// The place of the caller: threads that wait together must wait at the same place.
#define LAGOON_SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(LAGOON_SIMT_SITE) { lagoon::simt::Barrier(false, {file, line}); }
inline int __syncthreads_count(int predicate, LAGOON_SIMT_SITE) {
  return static_cast<int>(lagoon::simt::Barrier(predicate != 0, {file, line}));
}
inline int __syncthreads_or(int predicate, LAGOON_SIMT_SITE) {
  return lagoon::simt::Barrier(predicate != 0, {file, line}) != 0 ? 1 : 0;
}
inline int __syncthreads_and(int predicate, LAGOON_SIMT_SITE) {
  return lagoon::simt::Barrier(predicate == 0, {file, line}) == 0 ? 1 : 0;
}
inline void __syncwarp(unsigned mask = ~0u, LAGOON_SIMT_SITE) {
  lagoon::simt::CallWarp(lagoon::simt::SyncWarp, mask, nullptr, nullptr, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, LAGOON_SIMT_SITE) {
  const bool in = predicate != 0;
  unsigned out = 0;
  lagoon::simt::CallWarp(lagoon::simt::Ballot, mask, &in, &out, {file, line});
  return out;
}
inline int __any_sync(unsigned mask, int predicate, LAGOON_SIMT_SITE) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, LAGOON_SIMT_SITE) {
  return __ballot_sync(mask, predicate == 0 ? 1 : 0, file, line) == 0 ? 1 : 0;
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, LAGOON_SIMT_SITE) {
  return lagoon::simt::CallShuffle<lagoon::simt::ShuffleIndex>(
      mask, value, static_cast<unsigned>(source), {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, LAGOON_SIMT_SITE) {
  return lagoon::simt::CallShuffle<lagoon::simt::ShuffleXor>(
      mask, value, static_cast<unsigned>(lanes), {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, LAGOON_SIMT_SITE) {
  return lagoon::simt::CallShuffle<lagoon::simt::ShuffleUp>(mask, value, delta, {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, LAGOON_SIMT_SITE) {
  return lagoon::simt::CallShuffle<lagoon::simt::ShuffleDown>(mask, value, delta, {file, line});
}

// Device atomics. Blocks share one CPU thread, so that plain accesses are atomic between yields.
namespace lagoon::simt {
template <typename T, typename Update>
T Atomically(T* address, Update update) {
  MayYield();
  const T before = *address;
  *address = update(before);
  return before;
}
}  // namespace lagoon::simt

template <typename T>
T atomicAdd(T* address, T value) {
  return lagoon::simt::Atomically(address, [&](T before) { return T(before + value); });
}
template <typename T>
T atomicAnd(T* address, T value) {
  return lagoon::simt::Atomically(address, [&](T before) { return T(before & value); });
}
template <typename T>
T atomicOr(T* address, T value) {
  return lagoon::simt::Atomically(address, [&](T before) { return T(before | value); });
}
template <typename T>
T atomicMax(T* address, T value) {
  return lagoon::simt::Atomically(address,
                                  [&](T before) { return value > before ? value : before; });
}
template <typename T>
T atomicMin(T* address, T value) {
  return lagoon::simt::Atomically(address,
                                  [&](T before) { return value < before ? value : before; });
}
template <typename T>
T atomicExch(T* address, T value) {
  return lagoon::simt::Atomically(address, [&](T) { return value; });
}
template <typename T>
T atomicCAS(T* address, T expected, T value) {
  return lagoon::simt::Atomically(address,
                                  [&](T before) { return before == expected ? value : before; });
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
/// Lets other threads run: a loop that waits for memory must call it.
inline void __nanosleep(unsigned) { lagoon::simt::Yield(); }
[[noreturn]] inline void __trap(LAGOON_SIMT_SITE) { lagoon::simt::Trap("__trap()", {file, line}); }

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
/// Position of the lowest set bit, from 1. 0: no bit is set.
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
