#pragma once

// The units of x86, which need intrinsics: Highway 1.0 has no products of bytes.

#include "kernels/nbits/nbits_unit.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <cstring>
#define LAGOON_HAS_NBITS_UNITS 1

namespace lagoon {

extern const NbitsUnit kNbitsVnni512, kNbitsVnni256, kNbitsAvx2;

namespace nbits {

inline std::int32_t WordAt(const std::int8_t* x) {
  std::int32_t word;
  std::memcpy(&word, x, sizeof(word));
  return word;
}

/// Asks for the memory that the stream of weights comes to.
inline void Prefetch(const std::byte* weights, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(weights) + kNbitsPrefetchBytes + at, _MM_HINT_T0);
  }
}

}  // namespace nbits
}  // namespace lagoon
#endif
