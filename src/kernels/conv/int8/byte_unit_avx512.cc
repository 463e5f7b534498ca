#include <algorithm>

#include "kernels/conv/int8/byte_unit_x86.h"
#include "kernels/simd/unroll.h"

#ifdef LAGOON_HAS_BYTE_UNITS
namespace lagoon {
namespace byte_unit {
namespace {

#define LAGOON_BYTES512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

/// `sums` plus the products of the quads.
template <ByteProduct kProduct>
LAGOON_BYTES512 inline __m512i Add512(__m512i sums, __m512i x, __m512i w) {
  if constexpr (kProduct == ByteProduct::kVnni) {
    // The intrinsic would need AVX512-VNNI in every function that this one is inlined into.
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "vm"(w));
    return sums;
  }
  if constexpr (kProduct == ByteProduct::kNarrow) {
    const __m512i pairs = _mm512_maddubs_epi16(x, w);
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(x, _mm512_set1_epi16(0xff)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(x, 8), _mm512_srai_epi16(w, 8));
  return _mm512_add_epi32(sums, _mm512_add_epi32(even, odd));
}

template <ByteProduct kProduct>
struct Micro512 {
  static constexpr int kMost = kProduct == ByteProduct::kWide ? 6 : 12;

  template <int kRows>
  LAGOON_BYTES512 __attribute__((noinline)) static void Rows(const ByteTile& tile,
                                                             std::size_t first) {
    std::int32_t* const sums = tile.sums + first * kBytePanel;
    __m512i acc[kRows][2];
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int h = 0; h < 2; ++h) {
        acc[r][h] = tile.resume ? _mm512_loadu_si512(sums + r * kBytePanel + h * 16)
                                : _mm512_loadu_si512(tile.bias + h * 16);
      }
    }
    const std::int8_t* w = tile.weights;
    for (std::size_t tap = 0; tap < tile.taps; ++tap) {
      const std::uint8_t* x[kRows];
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        x[r] = tile.pixels[tap * kByteRows + first + r] + tile.offset;
      }
      for (std::size_t at = 0; at < kByteQuad * tile.quads; at += kByteQuad, w += kByteQuadBytes) {
        const __m512i low = _mm512_loadu_si512(w), high = _mm512_loadu_si512(w + 64);
        LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
          const __m512i quad = _mm512_set1_epi32(QuadAt(x[r] + at));
          acc[r][0] = Add512<kProduct>(acc[r][0], quad, low);
          acc[r][1] = Add512<kProduct>(acc[r][1], quad, high);
        }
      }
    }
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      LAGOON_UNROLL for (int h = 0; h < 2; ++h) {
        _mm512_storeu_si512(sums + r * kBytePanel + h * 16, acc[r][h]);
      }
    }
  }
};

/// The scale and the limits of half a panel.
template <bool kLimits>
struct Half512 {
  __m512 scale, low, high;

  LAGOON_BYTES512 Half512(const ByteStore& store, std::size_t half)
      : scale(_mm512_loadu_ps(store.scale + half * 16)),
        low(_mm512_set1_ps(store.low)),
        high(_mm512_set1_ps(store.high)) {}

  LAGOON_BYTES512 __m512 Scaled(const std::int32_t* sums) const {
    const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums)), scale);
    return kLimits ? _mm512_min_ps(_mm512_max_ps(value, low), high) : value;
  }
};

template <bool kLimits>
LAGOON_BYTES512 void StoreBytesIn512(const ByteStore& store) {
  const Half512<kLimits> lower(store, 0), upper(store, 1);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(store.zero));
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const auto mask = static_cast<__mmask32>((std::uint64_t{1} << store.columns) - 1);
  const auto words = [&](const std::int32_t* sums) LAGOON_BYTES512 {
    const __m512i low = _mm512_cvtps_epi32(lower.Scaled(sums));
    const __m512i high = _mm512_cvtps_epi32(upper.Scaled(sums + 16));
    return _mm512_adds_epi16(_mm512_packs_epi32(low, high), zero);
  };
  auto* y = static_cast<std::uint8_t*>(store.y);
  const std::int32_t* sums = store.sums;
  for (std::size_t rows = store.rows; rows > 0;) {
    const std::size_t second = rows > 1 ? 1 : 0;
    const __m512i both = _mm512_packus_epi16(words(sums), words(sums + second * kBytePanel));
    const __m512i bytes = _mm512_permutexvar_epi64(order, both);
    _mm256_mask_storeu_epi8(y, mask, _mm512_castsi512_si256(bytes));
    if (second == 0) break;
    _mm256_mask_storeu_epi8(y + store.pitch, mask, _mm512_extracti64x4_epi64(bytes, 1));
    rows -= 2;
    sums += 2 * kBytePanel;
    y += 2 * store.pitch;
  }
}

LAGOON_BYTES512 void StoreBytes512(const ByteStore& store) {
  return store.limits ? StoreBytesIn512<true>(store) : StoreBytesIn512<false>(store);
}

/// The floats of half a panel, rounded to the grid if there is one.
template <bool kLimits, bool kGrid>
LAGOON_BYTES512 inline __m512d FloatsOf512(const Half512<kLimits>& half, const std::int32_t* sums,
                                           __m512 grid) {
  __m512 value = half.Scaled(sums);
  if (kGrid) value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtps_epi32(value)), grid);
  return _mm512_castps_pd(value);
}

template <bool kLimits, bool kGrid>
LAGOON_BYTES512 void StoreFloatsIn512(const ByteStore& store) {
  const Half512<kLimits> lower(store, 0), upper(store, 1);
  const __m512 grid = _mm512_set1_ps(store.grid);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << store.columns) - 1);
  auto* y = static_cast<float*>(store.y);
  for (std::size_t row = 0; row < store.rows; ++row, y += store.pitch) {
    const std::int32_t* const sums = store.sums + row * kBytePanel;
    const __m512d low = FloatsOf512<kLimits, kGrid>(lower, sums, grid);
    const __m512d high = FloatsOf512<kLimits, kGrid>(upper, sums + 16, grid);
    _mm512_mask_storeu_ps(y, static_cast<__mmask16>(mask),
                          _mm512_castpd_ps(_mm512_permutex2var_pd(low, first, high)));
    _mm512_mask_storeu_ps(y + 16, static_cast<__mmask16>(mask >> 16),
                          _mm512_castpd_ps(_mm512_permutex2var_pd(low, second, high)));
  }
}

LAGOON_BYTES512 void StoreFloats512(const ByteStore& store) {
  if (store.grid != 0) return StoreFloatsIn512<true, true>(store);  // bytes have limits
  return store.limits ? StoreFloatsIn512<true, false>(store)
                      : StoreFloatsIn512<false, false>(store);
}

/// Four neighbours of each of 64 channels, by place.
LAGOON_BYTES512 inline void Quads512(const std::uint8_t* const* taps, std::size_t at,
                                     __mmask64 mask, __m512i (&to)[4]) {
  const __m512i a = _mm512_maskz_loadu_epi8(mask, taps[0] + at);
  const __m512i b = _mm512_maskz_loadu_epi8(mask, taps[1] + at);
  const __m512i c = _mm512_maskz_loadu_epi8(mask, taps[2] + at);
  const __m512i d = _mm512_maskz_loadu_epi8(mask, taps[3] + at);
  const __m512i ab = _mm512_unpacklo_epi8(a, b), upper_ab = _mm512_unpackhi_epi8(a, b);
  const __m512i cd = _mm512_unpacklo_epi8(c, d), upper_cd = _mm512_unpackhi_epi8(c, d);
  to[0] = _mm512_unpacklo_epi16(ab, cd);
  to[1] = _mm512_unpackhi_epi16(ab, cd);
  to[2] = _mm512_unpacklo_epi16(upper_ab, upper_cd);
  to[3] = _mm512_unpackhi_epi16(upper_ab, upper_cd);
}

/// Stores the results of a group of a pixel.
LAGOON_BYTES512 inline void StoreGroup512(const ByteDepthwise& d, std::size_t pixel,
                                          std::size_t first, __mmask64 mask, __m512i (&sums)[4]) {
  LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
    __m512 value =
        _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i]), _mm512_loadu_ps(d.scale + first + 16 * i));
    if (d.limits) {
      value = _mm512_min_ps(_mm512_max_ps(value, _mm512_set1_ps(d.low)), _mm512_set1_ps(d.high));
    }
    sums[i] = _mm512_cvtps_epi32(value);
  }
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(d.zero));
  const __m512i bytes =
      _mm512_packus_epi16(_mm512_adds_epi16(_mm512_packs_epi32(sums[0], sums[1]), zero),
                          _mm512_adds_epi16(_mm512_packs_epi32(sums[2], sums[3]), zero));
  _mm512_mask_storeu_epi8(d.y + pixel * d.channels + first, mask, bytes);
}

inline __mmask64 GroupMask(const ByteDepthwise& d, std::size_t first) {
  const std::size_t left = d.channels - first;
  return left >= kByteGroup ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
}

/// kPixels neighbours from `pixel` on: each column of the image is read once.
template <ByteProduct kProduct, std::size_t kColumns, std::size_t kStride, std::size_t kPixels>
LAGOON_BYTES512 void DepthwisePixels512(const ByteDepthwise& d, std::size_t pixel) {
  const std::size_t column_quads = d.quads / kColumns;
  // Columns left of the image wrap.
  const std::size_t origin = static_cast<std::size_t>(d.origin) + pixel * kStride;
  for (std::size_t first = 0; first < d.channels; first += kByteGroup) {
    const __mmask64 mask = GroupMask(d, first);
    __m512i acc[kPixels][4];
    LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
      const __m512i bias = _mm512_loadu_si512(d.bias + first + 16 * i);
      LAGOON_UNROLL for (std::size_t p = 0; p < kPixels; ++p) acc[p][i] = bias;
    }
    for (std::size_t quad = 0; quad < column_quads; ++quad) {
      const std::int8_t* const w = d.weights + (first * d.quads + quad * kByteGroup) * kByteQuad;
      LAGOON_UNROLL for (std::size_t c = 0; c < (kPixels - 1) * kStride + kColumns; ++c) {
        __m512i x[4];
        if (origin + c < d.width) {
          Quads512(d.taps + quad * kByteQuad, (origin + c) * d.channels + first, mask, x);
        } else {
          x[0] = x[1] = x[2] = x[3] = _mm512_set1_epi8(static_cast<char>(d.x_zero));
        }
        LAGOON_UNROLL for (std::size_t p = 0; p < kPixels; ++p) {
          const std::size_t s = c - p * kStride;  // wraps where the pixel does not read the column
          if (s < kColumns) {
            LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
              acc[p][i] = Add512<kProduct>(
                  acc[p][i], x[i],
                  _mm512_loadu_si512(w + s * column_quads * kByteGroup * kByteQuad + 64 * i));
            }
          }
        }
      }
    }
    LAGOON_UNROLL for (std::size_t p = 0; p < kPixels; ++p) {
      StoreGroup512(d, pixel + p, first, mask, acc[p]);
    }
  }
}

template <ByteProduct kProduct, std::size_t kColumns, std::size_t kStride>
LAGOON_BYTES512 void DepthwiseColumns512(const ByteDepthwise& d) {
  std::size_t pixel = 0;
  for (; pixel + 4 <= d.pixels; pixel += 4) {
    DepthwisePixels512<kProduct, kColumns, kStride, 4>(d, pixel);
  }
  const std::size_t left = d.pixels - pixel;
  if (left == 3) return DepthwisePixels512<kProduct, kColumns, kStride, 3>(d, pixel);
  if (left == 2) return DepthwisePixels512<kProduct, kColumns, kStride, 2>(d, pixel);
  if (left == 1) return DepthwisePixels512<kProduct, kColumns, kStride, 1>(d, pixel);
}

template <ByteProduct kProduct>
LAGOON_BYTES512 void Depthwise512(const ByteDepthwise& d) {
  if (d.columns == 3) {
    return d.stride == 1 ? DepthwiseColumns512<kProduct, 3, 1>(d)
                         : DepthwiseColumns512<kProduct, 3, 2>(d);
  }
  if (d.columns == 5) {
    return d.stride == 1 ? DepthwiseColumns512<kProduct, 5, 1>(d)
                         : DepthwiseColumns512<kProduct, 5, 2>(d);
  }
  for (std::size_t pixel = 0; pixel < d.pixels; ++pixel) {
    for (std::size_t first = 0; first < d.channels; first += kByteGroup) {
      const __mmask64 mask = GroupMask(d, first);
      __m512i acc[4];
      LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
        acc[i] = _mm512_loadu_si512(d.bias + first + 16 * i);
      }
      const std::int8_t* w = d.weights + first * d.quads * kByteQuad;
      for (std::size_t quad = 0; quad < d.quads; ++quad, w += kByteGroup * kByteQuad) {
        __m512i x[4];
        Quads512(d.taps + quad * kByteQuad, pixel * d.step + first, mask, x);
        LAGOON_UNROLL for (std::size_t i = 0; i < 4; ++i) {
          acc[i] = Add512<kProduct>(acc[i], x[i], _mm512_loadu_si512(w + 64 * i));
        }
      }
      StoreGroup512(d, pixel, first, mask, acc);
    }
  }
}

/// Copies 64 bytes or more a row. The last vector may overlap the one before: masked vectors that
/// cross a line of the cache, as most do here, take several times as long.
LAGOON_BYTES512 void Copy512(const ByteRows& rows) {
  if (rows.bytes < 64) return Copy(rows);
  const std::uint8_t* from = rows.from;
  std::uint8_t* to = rows.to;
  const std::size_t last = rows.bytes - 64;
  for (std::size_t row = 0; row < rows.rows; ++row) {
    for (std::size_t i = 0; i < last; i += 64) {
      _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    }
    _mm512_storeu_si512(to + last, _mm512_loadu_si512(from + last));
    from += rows.from_pitch;
    to += rows.to_pitch;
  }
}

}  // namespace
}  // namespace byte_unit

const ByteUnit kVnni512Unit = {
    .name = "AVX512-VNNI",
    .quad_ns = 7.2,
    .row_ns = 0.6,
    .depthwise_quad_ns = 2.5,
    .group_ns = 4,
    .multiply = &byte_unit::MultiplyAll<byte_unit::Micro512<byte_unit::ByteProduct::kVnni>>,
    .store_bytes = &byte_unit::StoreBytes512,
    .store_floats = &byte_unit::StoreFloats512,
    .shares_columns = true,
    .depthwise = &byte_unit::Depthwise512<byte_unit::ByteProduct::kVnni>,
    .copy = &byte_unit::Copy512};
const ByteUnit kBytes512Unit = {
    .name = "AVX-512",
    .quad_ns = 16,
    .row_ns = 0.6,
    .depthwise_quad_ns = 4,
    .group_ns = 4,
    .multiply = &byte_unit::MultiplyWithoutVnni<byte_unit::Micro512>,
    .store_bytes = &byte_unit::StoreBytes512,
    .store_floats = &byte_unit::StoreFloats512,
    .shares_columns = true,
    .depthwise = &byte_unit::Depthwise512<byte_unit::ByteProduct::kWide>,
    .copy = &byte_unit::Copy512};
// AMX multiplies; AVX-512 does the rest.
const ByteUnit kAmxInt8Unit = {.name = "AMX-INT8",
                               .rows = kMaxByteRows,
                               .even = true,
                               .quad_ns = 2.2,
                               .row_ns = 2.7,
                               .depthwise_quad_ns = 2.5,
                               .group_ns = 4,
                               .enter = &byte_unit::EnterInt8Tiles,
                               .multiply = &byte_unit::MultiplyInt8Tiles,
                               .leave = &byte_unit::LeaveInt8Tiles,
                               .store_bytes = &byte_unit::StoreBytes512,
                               .store_floats = &byte_unit::StoreFloats512,
                               .shares_columns = true,
                               .depthwise = &byte_unit::Depthwise512<byte_unit::ByteProduct::kVnni>,
                               .copy = &byte_unit::Copy512};

}  // namespace lagoon
#endif
