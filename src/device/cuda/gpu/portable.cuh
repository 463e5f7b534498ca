#pragma once

// What device code needs from its compiler. There are three compilers: nvcc, NVRTC (no standard
// headers), and a C++ compiler, where simt/emulator.h runs a block with one fiber per thread.
//
// Orderings have the names of their C++ counterparts. The scope is the GPU; for words that the host
// reads, the system.

#include "device/cuda/gpu/types.cuh"

#if LAGOON_CUDA_COMPILER
#define LAGOON_DEVICE __device__ __forceinline__
#else
#include "base/time.h"
#include "simt/cuda.h"
#define LAGOON_DEVICE inline
#endif

namespace lagoon::cuda {

#if LAGOON_CUDA_COMPILER

LAGOON_DEVICE u32 LoadRelaxed(const u32* word) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
LAGOON_DEVICE u64 LoadRelaxed(const u64* word) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
LAGOON_DEVICE u64 LoadAcquire(const u64* word) {
  u64 value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
/// Stores to memory that the host reads.
LAGOON_DEVICE void StoreToHost(u64* word, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
/// Loads from memory that the host writes.
LAGOON_DEVICE u32 LoadFromHost(const u32* word) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
/// Time of a clock that all multiprocessors share.
LAGOON_DEVICE u64 TimerNanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
LAGOON_DEVICE u64 FetchAdd(u64* word, u64 value) { return atomicAdd(word, value); }
LAGOON_DEVICE u64 CompareExchange(u64* word, u64 expected, u64 value) {
  return atomicCAS(word, expected, value);
}
/// Acquire and release order what this thread did, and what it learned of at barriers. Both cost
/// less than a relaxed atomic beside a fence: a fence also waits for the order of all fences.
LAGOON_DEVICE u64 FetchAndAcquire(u64* word, u64 value) {
  u64 before;
  asm volatile("atom.acquire.gpu.global.and.b64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(word), "l"(value)
               : "memory");
  return before;
}
LAGOON_DEVICE u64 FetchAddAcqRel(u64* word, u64 value) {
  u64 before;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(word), "l"(value)
               : "memory");
  return before;
}
LAGOON_DEVICE void OrRelease(u64* word, u64 value) {
  asm volatile("red.release.gpu.global.or.b64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
/// Acquire and release for the relaxed loads and atomics around it. __threadfence() would also put
/// all fences of the GPU into one order, which takes longer and which nothing here needs.
LAGOON_DEVICE void Fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
LAGOON_DEVICE u32 LowestBit(u32 bits) {
  return static_cast<u32>(__ffs(static_cast<int>(bits))) - 1;
}

#else

LAGOON_DEVICE u32 LoadRelaxed(const u32* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
LAGOON_DEVICE u64 LoadRelaxed(const u64* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
LAGOON_DEVICE u64 LoadAcquire(const u64* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
// Stronger than on a GPU, where the end of the launch or a copy in the same stream publishes the
// data.
LAGOON_DEVICE void StoreToHost(u64* word, u64 value) {
  simt::MayYield();
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
LAGOON_DEVICE u32 LoadFromHost(const u32* word) { return LoadRelaxed(word); }
LAGOON_DEVICE u64 TimerNanoseconds() {
  simt::MayYield();  // the caller waits for time to pass
  return static_cast<u64>(lagoon::Now().time_since_epoch().count());
}
LAGOON_DEVICE u64 FetchAdd(u64* word, u64 value) {
  simt::MayYield();
  return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}
LAGOON_DEVICE u64 CompareExchange(u64* word, u64 expected, u64 value) {
  simt::MayYield();
  __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
LAGOON_DEVICE u64 FetchAndAcquire(u64* word, u64 value) {
  simt::MayYield();
  return __atomic_fetch_and(word, value, __ATOMIC_ACQ_REL);
}
LAGOON_DEVICE u64 FetchAddAcqRel(u64* word, u64 value) { return FetchAdd(word, value); }
LAGOON_DEVICE void OrRelease(u64* word, u64 value) {
  simt::MayYield();
  __atomic_fetch_or(word, value, __ATOMIC_ACQ_REL);
}
LAGOON_DEVICE void Fence() {}  // the atomics above are strong enough
LAGOON_DEVICE u32 LowestBit(u32 bits) { return static_cast<u32>(__builtin_ctz(bits)); }

#endif

}  // namespace lagoon::cuda
