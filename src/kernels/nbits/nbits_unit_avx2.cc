#include "kernels/nbits/nbits_unit_x86.h"
#include "kernels/simd/unroll.h"

#ifdef LAGOON_HAS_NBITS_UNITS
namespace lagoon {
namespace nbits {
namespace {

#define LAGOON_NBITS256 __attribute__((target("avx2,fma,f16c")))
#define LAGOON_NBITS_VNNI256 __attribute__((target("avx2,fma,f16c,avxvnni")))

LAGOON_NBITS256 inline __m256i Load256(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// Half a panel: its scales and zero points.
LAGOON_NBITS256 inline __m256 Scales256(const NbitsBlock& block, const std::byte* packed,
                                        std::size_t half) {
  const std::byte* const scales = packed + block.level_bytes();
  if (!block.half_scales) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(scales + half * 32));
  }
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + half * 16)));
}

LAGOON_NBITS256 inline __m256i Zeros256(const NbitsBlock& block, const std::byte* packed,
                                        int half) {
  if (!block.zeros) return _mm256_set1_epi32(1 << (block.bits - 1));
  return _mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed + block.zeros_at() + half * 8)));
}

/// sum + the products of the levels and x, exact.
template <bool kVnni, int kBits>
LAGOON_NBITS256 inline __m256i AddProducts(__m256i sum, __m256i levels, __m256i x) {
  if constexpr (kVnni) {
    // The intrinsic would need AVX-VNNI in every function that this one is inlined into.
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(levels), "x"(x));
    return sum;
  } else {
    const __m256i ones = _mm256_set1_epi16(1);
    // Pairs of products fit 16 bits for levels of up to 4 bits only.
    if constexpr (kBits < 8) {
      return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(levels, x), ones));
    }
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i low = _mm256_and_si256(levels, nibble);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(levels, 4), nibble);
    const __m256i sixteens =
        _mm256_madd_epi16(_mm256_maddubs_epi16(high, x), _mm256_set1_epi16(16));
    const __m256i rest = _mm256_madd_epi16(_mm256_maddubs_epi16(low, x), ones);
    return _mm256_add_epi32(sum, _mm256_add_epi32(sixteens, rest));
  }
}

template <int kBits>
LAGOON_NBITS256 inline __m256i Field256(__m256i bytes, int field) {
  if constexpr (kBits == 8) return bytes;
  return _mm256_and_si256(_mm256_srli_epi16(bytes, field * kBits),
                          _mm256_set1_epi8((1 << kBits) - 1));
}

/// Half a panel, for kRows of the tile's rows from `first` on.
template <bool kVnni, int kBits, int kRows>
LAGOON_NBITS256 __attribute__((noinline)) void Bytes256(const NbitsTile& tile, std::size_t first,
                                                        std::size_t half) {
  constexpr int kFields = 8 / kBits;
  const NbitsBlock& block = tile.block;
  const std::size_t vectors = block.field_depth() / 4, pitch = 4 * tile.rows;
  float* const to = tile.sums + first * kNbitsPanel + half * 8;
  __m256 sums[kRows];
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    sums[r] = tile.resume ? _mm256_loadu_ps(to + r * kNbitsPanel) : _mm256_setzero_ps();
  }
  const std::byte* w = tile.weights;
  const std::int8_t* x = tile.x_bytes + 4 * first;
  for (std::size_t b = 0; b < tile.blocks; ++b, w += block.bytes(), x += block.depth * tile.rows) {
    if (half == 0) Prefetch(w, block.bytes());
    const std::size_t at_row = b * tile.rows + first;
    const __m256i zeros = Zeros256(block, w, half);
    __m256i products[kRows];
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      products[r] = _mm256_mullo_epi32(zeros, _mm256_set1_epi32(-tile.x_sum[at_row + r]));
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m256i bytes = Load256(w + v * kNbitsVector + half * 32);
      LAGOON_UNROLL for (int f = 0; f < kFields; ++f) {
        const __m256i levels = Field256<kBits>(bytes, f);
        const std::int8_t* const at = x + (f * vectors + v) * pitch;
        LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
          products[r] =
              AddProducts<kVnni, kBits>(products[r], levels, _mm256_set1_epi32(WordAt(at + 4 * r)));
        }
      }
    }
    const __m256 scale = Scales256(block, w, half);
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      const __m256 by = _mm256_mul_ps(scale, _mm256_set1_ps(tile.x_scale[at_row + r]));
      sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products[r]), by, sums[r]);
    }
  }
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) _mm256_storeu_ps(to + r * kNbitsPanel, sums[r]);
}

template <int kBits, int kRows>
LAGOON_NBITS256 __attribute__((noinline)) void Floats256(const NbitsTile& tile, std::size_t first,
                                                         std::size_t half) {
  constexpr int kFields = 8 / kBits;
  const NbitsBlock& block = tile.block;
  const std::size_t vectors = block.field_depth() / 4;
  float* const to = tile.sums + first * kNbitsPanel + half * 8;
  __m256 sums[kRows];
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    sums[r] = tile.resume ? _mm256_loadu_ps(to + r * kNbitsPanel) : _mm256_setzero_ps();
  }
  const std::byte* w = tile.weights;
  const float* x = tile.x + first;
  const __m256i mask = _mm256_set1_epi32((1 << kBits) - 1);
  for (std::size_t b = 0; b < tile.blocks; ++b, w += block.bytes(), x += block.depth * tile.rows) {
    if (half == 0) Prefetch(w, block.bytes());
    const __m256i zeros = Zeros256(block, w, half);
    __m256 products[kRows][2];
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      products[r][0] = products[r][1] = _mm256_setzero_ps();
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m256i words = Load256(w + v * kNbitsVector + half * 32);
      LAGOON_UNROLL for (int f = 0; f < kFields; ++f) {
        const float* const at = x + (f * vectors + v) * 4 * tile.rows;
        LAGOON_UNROLL for (int i = 0; i < 4; ++i) {
          const __m256i bits = _mm256_srli_epi32(words, 8 * i + f * kBits);
          const __m256 level =
              _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(bits, mask), zeros));
          LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
            products[r][i % 2] =
                _mm256_fmadd_ps(level, _mm256_set1_ps(at[i * tile.rows + r]), products[r][i % 2]);
          }
        }
      }
    }
    const __m256 scale = Scales256(block, w, half);
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
      sums[r] = _mm256_fmadd_ps(_mm256_add_ps(products[r][0], products[r][1]), scale, sums[r]);
    }
  }
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) _mm256_storeu_ps(to + r * kNbitsPanel, sums[r]);
}

using Half256 = void (*)(const NbitsTile& tile, std::size_t first, std::size_t half);

/// All rows and both halves: by one row, or by four or two.
void RunHalves(const NbitsTile& tile, Half256 one, Half256 two, Half256 four) {
  const std::size_t step = tile.rows >= 4 ? 4 : tile.rows;
  const Half256 run = step == 4 ? four : step == 2 ? two : one;
  for (std::size_t first = 0; first < tile.rows; first += step) {
    for (std::size_t half = 0; half < 2; ++half) run(tile, first, half);
  }
}

template <bool kVnni, int kBits>
void RunBytes256(const NbitsTile& tile) {
  RunHalves(tile, &Bytes256<kVnni, kBits, 1>, &Bytes256<kVnni, kBits, 2>,
            &Bytes256<kVnni, kBits, 4>);
}

template <bool kVnni>
void MultiplyBytes256(const NbitsTile& tile) {
  if (tile.block.bits == 4) return RunBytes256<kVnni, 4>(tile);
  if (tile.block.bits == 8) return RunBytes256<kVnni, 8>(tile);
  RunBytes256<kVnni, 2>(tile);
}

template <int kBits>
void RunFloats256(const NbitsTile& tile) {
  RunHalves(tile, &Floats256<kBits, 1>, &Floats256<kBits, 2>, &Floats256<kBits, 4>);
}

void MultiplyFloats256(const NbitsTile& tile) {
  if (tile.block.bits == 4) return RunFloats256<4>(tile);
  if (tile.block.bits == 8) return RunFloats256<8>(tile);
  RunFloats256<2>(tile);
}

/// The sum and the maximum of eight numbers.
LAGOON_NBITS256 inline std::int32_t SumOf(__m256i v) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0b01001110));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0b10110001));
  return _mm_cvtsi128_si32(half);
}
LAGOON_NBITS256 inline std::uint32_t MaxOf(__m256i v) {
  __m128i half = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0b01001110));
  half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0b10110001));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
}

LAGOON_NBITS256 void Round256(const NbitsRow& row) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (std::size_t b = 0; b < row.blocks; ++b) {
    const float* const x = row.x + b * row.block;
    __m256i most_bits = _mm256_setzero_si256();
    for (std::size_t i = 0; i < row.block; i += 8) {
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
      most_bits = _mm256_max_epu32(most_bits, _mm256_and_si256(bits, magnitude));
    }
    const NbitsFactors factors(MaxOf(most_bits));
    const __m256 by = _mm256_set1_ps(factors.by);
    __m256i sum = _mm256_setzero_si256();
    for (std::size_t i = 0; i < row.block; i += 8) {
      const __m256i level = factors.counts
                                ? _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), by))
                                : _mm256_setzero_si256();
      sum = _mm256_add_epi32(sum, level);
      const __m128i words =
          _mm_packs_epi32(_mm256_castsi256_si128(level), _mm256_extracti128_si256(level, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(row.bytes + b * row.block + i),
                       _mm_packs_epi16(words, words));
    }
    row.scale[b] = factors.scale;
    row.sum[b] = SumOf(sum);
  }
}

}  // namespace
}  // namespace nbits

const NbitsUnit kNbitsVnni256 = {
    "AVX-VNNI",      0.7, 0.4, 0.35, 0.9, &nbits::MultiplyBytes256<true>, &nbits::MultiplyFloats256,
    &nbits::Round256};
const NbitsUnit kNbitsAvx2 = {
    "AVX2",          0.6, 0.6, 0.35, 1, &nbits::MultiplyBytes256<false>, &nbits::MultiplyFloats256,
    &nbits::Round256};

}  // namespace lagoon
#endif
