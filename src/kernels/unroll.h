#pragma once

/// Before a loop over registers with constant bounds: arrays of vectors stay in registers only when
/// every loop over them is unrolled.
#if defined(__clang__)
#define LAGOON_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LAGOON_UNROLL _Pragma("GCC unroll 64")
#endif
