#pragma once

/// Put before a loop with constant bounds over registers: arrays of vectors stay in registers only
/// if every loop over them is unrolled. Empty under a sanitizer, whose checks would be unrolled too
/// and would make the compiler take minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAGOON_UNROLL
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAGOON_UNROLL
#else
#define LAGOON_UNROLL _Pragma("clang loop unroll(full)")
#endif
#else
#define LAGOON_UNROLL _Pragma("GCC unroll 64")
#endif
