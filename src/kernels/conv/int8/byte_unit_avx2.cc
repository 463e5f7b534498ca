#include <algorithm>

#include "kernels/conv/int8/byte_unit_x86.h"
#include "kernels/simd/unroll.h"

#ifdef LAGOON_HAS_BYTE_UNITS
namespace lagoon {
namespace byte_unit {
namespace {

#define LAGOON_BYTES256 __attribute__((target("avx2,fma")))

/// `sums` plus the products of the quads.
template <ByteProduct kProduct>
LAGOON_BYTES256 inline __m256i Add256(__m256i sums, __m256i x, __m256i w) {
  if constexpr (kProduct == ByteProduct::kVnni) {
    // The intrinsic would need AVX-VNNI in every function that this one is inlined into.
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(x), "xm"(w));
    return sums;
  }
  if constexpr (kProduct == ByteProduct::kNarrow) {
    const __m256i pairs = _mm256_maddubs_epi16(x, w);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0xff)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));
  return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
}

template <ByteProduct kProduct>
struct Micro256 {
  static constexpr int kMost = kProduct == ByteProduct::kVnni ? 6 : 4;

  template <int kRows>
  LAGOON_BYTES256 __attribute__((noinline)) static void Half(const ByteTile& tile,
                                                             std::size_t first, std::size_t half) {
    std::int32_t* const sums = tile.sums + first * kBytePanel + half * 16;
    __m256i acc[kRows][2];
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int h = 0; h < 2; ++h) {
        const std::int32_t* const from =
            tile.resume ? sums + r * kBytePanel + h * 8 : tile.bias + half * 16 + h * 8;
        acc[r][h] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      }
    }
    const std::int8_t* w = tile.weights + half * 64;
    for (std::size_t tap = 0; tap < tile.taps; ++tap) {
      const std::uint8_t* x[kRows];
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        x[r] = tile.pixels[tap * kByteRows + first + r] + tile.offset;
      }
      for (std::size_t at = 0; at < kByteQuad * tile.quads; at += kByteQuad, w += kByteQuadBytes) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32));
        LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
          const __m256i quad = _mm256_set1_epi32(QuadAt(x[r] + at));
          acc[r][0] = Add256<kProduct>(acc[r][0], quad, low);
          acc[r][1] = Add256<kProduct>(acc[r][1], quad, high);
        }
      }
    }
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int h = 0; h < 2; ++h) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kBytePanel + h * 8), acc[r][h]);
      }
    }
  }

  template <int kRows>
  static void Rows(const ByteTile& tile, std::size_t first) {
    Half<kRows>(tile, first, 0);
    Half<kRows>(tile, first, 1);
  }
};

/// The results of a row as floats, by place.
LAGOON_BYTES256 inline void Scale256(const ByteStore& store, std::size_t row, __m256 (&to)[4]) {
  LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
    const std::int32_t* const from = store.sums + row * kBytePanel + 8 * i;
    const __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    to[i] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(store.scale + 8 * i));
    if (!store.limits) continue;
    to[i] =
        _mm256_min_ps(_mm256_max_ps(to[i], _mm256_set1_ps(store.low)), _mm256_set1_ps(store.high));
  }
}

LAGOON_BYTES256 void StoreBytes256(const ByteStore& store) {
  const __m256i zero = _mm256_set1_epi16(static_cast<short>(store.zero));
  auto* y = static_cast<std::uint8_t*>(store.y);
  for (std::size_t row = 0; row < store.rows; ++row, y += store.pitch) {
    __m256 v[4];
    Scale256(store, row, v);
    // The packs join the halves of the registers by turns.
    const __m256i first = _mm256_adds_epi16(
        _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[2])), zero);
    const __m256i second = _mm256_adds_epi16(
        _mm256_packs_epi32(_mm256_cvtps_epi32(v[1]), _mm256_cvtps_epi32(v[3])), zero);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0b11011000);
    if (store.columns == kBytePanel) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), bytes);
    } else {
      std::uint8_t part[kBytePanel];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(part), bytes);
      std::memcpy(y, part, store.columns);
    }
  }
}

LAGOON_BYTES256 void StoreFloats256(const ByteStore& store) {
  const __m256 grid = _mm256_set1_ps(store.grid);
  auto* y = static_cast<float*>(store.y);
  for (std::size_t row = 0; row < store.rows; ++row, y += store.pitch) {
    __m256 v[4];
    Scale256(store, row, v);
    if (store.grid != 0) {
      LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
        v[i] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtps_epi32(v[i])), grid);
      }
    }
    float part[kBytePanel];
    float* const to = store.columns == kBytePanel ? y : part;
    LAGOON_UNROLL for (int i = 0; i < 2; ++i) {
      _mm256_storeu_ps(to + 16 * i, _mm256_permute2f128_ps(v[i], v[i + 2], 0x20));
      _mm256_storeu_ps(to + 16 * i + 8, _mm256_permute2f128_ps(v[i], v[i + 2], 0x31));
    }
    if (to == part) std::memcpy(y, part, store.columns * sizeof(float));
  }
}

/// Four neighbours of each of up to 32 channels, by place. Reads no more than `count` channels.
LAGOON_BYTES256 inline void Quads256(const std::uint8_t* const* taps, std::size_t at,
                                     std::size_t count, __m256i (&to)[4]) {
  __m256i x[4];
  LAGOON_UNROLL for (std::size_t tap = 0; tap < 4; ++tap) {
    if (count >= 32) {
      x[tap] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(taps[tap] + at));
    } else {
      std::uint8_t part[32] = {};
      std::memcpy(part, taps[tap] + at, count);
      x[tap] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(part));
    }
  }
  const __m256i ab = _mm256_unpacklo_epi8(x[0], x[1]), upper_ab = _mm256_unpackhi_epi8(x[0], x[1]);
  const __m256i cd = _mm256_unpacklo_epi8(x[2], x[3]), upper_cd = _mm256_unpackhi_epi8(x[2], x[3]);
  to[0] = _mm256_unpacklo_epi16(ab, cd);
  to[1] = _mm256_unpackhi_epi16(ab, cd);
  to[2] = _mm256_unpacklo_epi16(upper_ab, upper_cd);
  to[3] = _mm256_unpackhi_epi16(upper_ab, upper_cd);
}

/// The results of up to 32 channels from `first` on.
template <ByteProduct kProduct>
LAGOON_BYTES256 inline void DepthwisePart256(const ByteDepthwise& d, std::size_t pixel,
                                             std::size_t first) {
  const std::size_t count = std::min<std::size_t>(32, d.channels - first);
  // Where these channels begin in the first vector of places of their group.
  const std::size_t group = first / kByteGroup * kByteGroup, part = first % kByteGroup / 4;
  const __m256i zero = _mm256_set1_epi16(static_cast<short>(d.zero));
  __m256i acc[4];
  LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
    acc[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(d.bias + group + 16 * i + part));
  }
  const std::int8_t* w = d.weights + group * d.quads * kByteQuad + part * kByteQuad;
  for (std::size_t quad = 0; quad < d.quads; ++quad, w += kByteGroup * kByteQuad) {
    __m256i x[4];
    Quads256(d.taps + quad * kByteQuad, pixel * d.step + first, count, x);
    LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
      const __m256i by = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 64 * i));
      acc[i] = Add256<kProduct>(acc[i], x[i], by);
    }
  }
  LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
    __m256 value =
        _mm256_mul_ps(_mm256_cvtepi32_ps(acc[i]), _mm256_loadu_ps(d.scale + group + 16 * i + part));
    if (d.limits) {
      value = _mm256_min_ps(_mm256_max_ps(value, _mm256_set1_ps(d.low)), _mm256_set1_ps(d.high));
    }
    acc[i] = _mm256_cvtps_epi32(value);
  }
  std::uint8_t bytes[32];
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(bytes),
      _mm256_packus_epi16(_mm256_adds_epi16(_mm256_packs_epi32(acc[0], acc[1]), zero),
                          _mm256_adds_epi16(_mm256_packs_epi32(acc[2], acc[3]), zero)));
  std::memcpy(d.y + pixel * d.channels + first, bytes, count);
}

template <ByteProduct kProduct>
LAGOON_BYTES256 void Depthwise256(const ByteDepthwise& d) {
  for (std::size_t pixel = 0; pixel < d.pixels; ++pixel) {
    for (std::size_t first = 0; first < d.channels; first += 32) {
      DepthwisePart256<kProduct>(d, pixel, first);
    }
  }
}

}  // namespace
}  // namespace byte_unit

const ByteUnit kVnni256Unit = {
    .name = "AVX-VNNI",
    .quad_ns = 8,
    .row_ns = 1.2,
    .depthwise_quad_ns = 8,
    .group_ns = 12,
    .multiply = &byte_unit::MultiplyAll<byte_unit::Micro256<byte_unit::ByteProduct::kVnni>>,
    .store_bytes = &byte_unit::StoreBytes256,
    .store_floats = &byte_unit::StoreFloats256,
    .depthwise = &byte_unit::Depthwise256<byte_unit::ByteProduct::kVnni>,
    .copy = &byte_unit::Copy};
const ByteUnit kBytes256Unit = {
    .name = "AVX2",
    .quad_ns = 16,
    .row_ns = 1.5,
    .depthwise_quad_ns = 8,
    .group_ns = 12,
    .multiply = &byte_unit::MultiplyWithoutVnni<byte_unit::Micro256>,
    .store_bytes = &byte_unit::StoreBytes256,
    .store_floats = &byte_unit::StoreFloats256,
    .depthwise = &byte_unit::Depthwise256<byte_unit::ByteProduct::kWide>,
    .copy = &byte_unit::Copy};

}  // namespace lagoon
#endif
