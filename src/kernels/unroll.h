#pragma once

/// Before a loop over registers with constant bounds: arrays of vectors stay in registers only when
/// every loop over them is unrolled. Not under a sanitizer: its checks would be unrolled too, and
/// the compiler would take minutes.
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
