#pragma once

// What bodies need beyond portable.cuh: shared variables, 16-bit numbers, warp-wide matrix
// instructions and asynchronous copies.

#include "device/cuda/gpu/portable.cuh"

#if LAGOON_CUDA_COMPILER
/// For long functions of one number. Inlined at each use they would be most of an entry's code.
#define LAGOON_DEVICE_CALL inline __device__ __noinline__
#define LAGOON_UNROLL _Pragma("unroll")
#define LAGOON_UNROLL_BY_4 _Pragma("unroll 4")
#define LAGOON_UNROLL_BY_8 _Pragma("unroll 8")
#define LAGOON_NO_UNROLL _Pragma("unroll 1")
#else
#include "simt/tensor_core.h"
#define LAGOON_DEVICE_CALL inline
#define LAGOON_UNROLL
#define LAGOON_UNROLL_BY_4
#define LAGOON_UNROLL_BY_8
#define LAGOON_NO_UNROLL
#endif

namespace lagoon::cuda {

using u8 = unsigned char;
using u16 = unsigned short;
using i32 = int;

struct Bf16 {
  u16 bits;
};
struct F16 {
  u16 bits;
};

inline constexpr u32 kAllLanes = 0xffffffffu;

template <typename T>
LAGOON_DEVICE T Min(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
LAGOON_DEVICE T Max(T a, T b) {
  return a < b ? b : a;
}

// ---- Numbers.

LAGOON_DEVICE float ToFloat(float value) { return value; }
LAGOON_DEVICE float ToFloat(Bf16 value) { return __uint_as_float(u32{value.bits} << 16); }
LAGOON_DEVICE float ToFloat(F16 value) {
#if LAGOON_CUDA_COMPILER
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  return simt::F16ToFloat(value.bits);
#endif
}

/// Two floats as two 16-bit floats in one word, `low` in its low half. To nearest, ties to even.
template <typename T>
LAGOON_DEVICE u32 PackHalves(float low, float high);
template <>
LAGOON_DEVICE u32 PackHalves<Bf16>(float low, float high) {
#if LAGOON_CUDA_COMPILER
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return simt::FloatToBf16(low) | u32{simt::FloatToBf16(high)} << 16;
#endif
}
template <>
LAGOON_DEVICE u32 PackHalves<F16>(float low, float high) {
#if LAGOON_CUDA_COMPILER
  u32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return simt::FloatToF16(low) | u32{simt::FloatToF16(high)} << 16;
#endif
}

template <typename T>
LAGOON_DEVICE T FromFloat(float value) {
  return T{static_cast<u16>(PackHalves<T>(value, 0))};
}
template <>
LAGOON_DEVICE float FromFloat<float>(float value) {
  return value;
}

/// The bits of an operand of MmaTf32. To nearest, ties away from zero.
LAGOON_DEVICE u32 ToTf32(float value) {
#if LAGOON_CUDA_COMPILER
  u32 result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return result;
#else
  const u32 bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
#endif
}

// ---- Matrix instructions, executed by whole warps. Fragments: see PTX ISA.

#if LAGOON_CUDA_COMPILER
LAGOON_DEVICE u32 SharedAddress(const void* shared) {
  return static_cast<u32>(__cvta_generic_to_shared(shared));
}
#endif

/// d += a * b, m16n8k16.
template <typename T>
LAGOON_DEVICE void Mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
template <>
LAGOON_DEVICE void Mma<Bf16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if LAGOON_CUDA_COMPILER
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const u32 b[2] = {b0, b1};
  const simt::MmaOperands in{a, b, d};
  simt::CallWarp(simt::MmaBf16, kAllLanes, &in, nullptr, {__FILE__, __LINE__});
#endif
}
template <>
LAGOON_DEVICE void Mma<F16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if LAGOON_CUDA_COMPILER
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const u32 b[2] = {b0, b1};
  const simt::MmaOperands in{a, b, d};
  simt::CallWarp(simt::MmaF16, kAllLanes, &in, nullptr, {__FILE__, __LINE__});
#endif
}
/// d += a * b, m16n8k8. a and b come from ToTf32().
LAGOON_DEVICE void MmaTf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if LAGOON_CUDA_COMPILER
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const u32 b[2] = {b0, b1};
  const simt::MmaOperands in{a, b, d};
  simt::CallWarp(simt::MmaTf32, kAllLanes, &in, nullptr, {__FILE__, __LINE__});
#endif
}

/// Loads four 8x8 matrices of 16 bits. Lane i passes row i % 8 of matrix i / 8 (16 bytes, aligned).
LAGOON_DEVICE void LoadMatrices(u32 (&r)[4], const void* row) {
#if LAGOON_CUDA_COMPILER
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
#else
  simt::CallWarp(simt::LoadMatrices, kAllLanes, row, r, {__FILE__, __LINE__});
#endif
}
LAGOON_DEVICE void LoadMatricesTransposed(u32 (&r)[4], const void* row) {
#if LAGOON_CUDA_COMPILER
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
#else
  simt::CallWarp(simt::LoadMatricesTransposed, kAllLanes, row, r, {__FILE__, __LINE__});
#endif
}

// ---- Asynchronous copies to shared memory. After WaitCopies() they have arrived for the thread
// that issued them; after a barrier behind that, for the other threads.

/// Copies the first `bytes` of 16 bytes from `source` and fills the rest with zeros. If `bytes` is
/// 0, `source` is not read.
LAGOON_DEVICE void CopyAsync16(void* shared, const void* source, u32 bytes) {
#if LAGOON_CUDA_COMPILER
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(source), "r"(bytes)
               : "memory");
#else
  simt::CopyAsync(shared, source, bytes, 16);
#endif
}
LAGOON_DEVICE void CopyAsync4(void* shared, const void* source, u32 bytes) {
#if LAGOON_CUDA_COMPILER
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(shared)),
               "l"(source), "r"(bytes)
               : "memory");
#else
  simt::CopyAsync(shared, source, bytes, 4);
#endif
}
LAGOON_DEVICE void CommitCopies() {
#if LAGOON_CUDA_COMPILER
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  simt::CommitCopies();
#endif
}
/// Waits until all but the latest `kPending` groups have arrived.
template <u32 kPending>
LAGOON_DEVICE void WaitCopies() {
#if LAGOON_CUDA_COMPILER
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#else
  simt::WaitCopies(kPending);
#endif
}

}  // namespace lagoon::cuda
