#include "kernels/nbits/nbits_unit_x86.h"
#include "kernels/simd/unroll.h"

#ifdef LAGOON_HAS_NBITS_UNITS
namespace lagoon {
namespace nbits {
namespace {

#define LAGOON_NBITS512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/// Few rows: sums by field, so that no product waits for the one before.
template <int kBits, int kRows>
inline constexpr int kChains = kRows <= 2 ? 8 / kBits : 1;

LAGOON_NBITS512 inline __m512 Scales512(const NbitsBlock& block, const std::byte* packed) {
  const std::byte* const scales = packed + block.level_bytes();
  if (!block.half_scales) return _mm512_loadu_ps(scales);
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
}

LAGOON_NBITS512 inline __m512i Zeros512(const NbitsBlock& block, const std::byte* packed) {
  if (!block.zeros) return _mm512_set1_epi32(1 << (block.bits - 1));
  return _mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + block.zeros_at())));
}

template <int kBits>
LAGOON_NBITS512 inline __m512i Field512(__m512i bytes, int field) {
  if constexpr (kBits == 8) return bytes;
  return _mm512_and_si512(_mm512_srli_epi16(bytes, static_cast<unsigned>(field * kBits)),
                          _mm512_set1_epi8((1 << kBits) - 1));
}

template <int kRows>
LAGOON_NBITS512 inline void Load512(const NbitsTile& tile, __m512 (&sums)[kRows]) {
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    sums[r] = tile.resume ? _mm512_loadu_ps(tile.sums + r * 16) : _mm512_setzero_ps();
  }
}

template <int kBits, int kRows>
struct Bytes512 {
  LAGOON_NBITS512 __attribute__((noinline)) static void Run(const NbitsTile& tile) {
    constexpr int kFields = 8 / kBits, kSplit = kChains<kBits, kRows>;
    const NbitsBlock& block = tile.block;
    const std::size_t vectors = block.field_depth() / 4, field_bytes = block.field_depth() * kRows;
    __m512 sums[kRows];
    Load512<kRows>(tile, sums);
    const std::byte* w = tile.weights;
    const std::int8_t* x = tile.x_bytes;
    for (std::size_t b = 0; b < tile.blocks; ++b, w += block.bytes(), x += block.depth * kRows) {
      Prefetch(w, block.bytes());
      __m512i products[kRows][kSplit];
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        LAGOON_UNROLL for (int c = 0; c < kSplit; ++c) products[r][c] = _mm512_setzero_si512();
      }
      if (block.zeros) {
        const __m512i zeros = Zeros512(block, w);
        LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
          products[r][0] = _mm512_mullo_epi32(zeros, _mm512_set1_epi32(-tile.x_sum[b * kRows + r]));
        }
      } else {
        LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
          products[r][0] = _mm512_set1_epi32(-tile.x_sum[b * kRows + r] * (1 << (kBits - 1)));
        }
      }
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m512i bytes = _mm512_loadu_si512(w + v * kNbitsVector);
        LAGOON_UNROLL for (int f = 0; f < kFields; ++f) {
          const __m512i levels = Field512<kBits>(bytes, f);
          const std::int8_t* const at = x + f * field_bytes + v * 4 * kRows;
          LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
            products[r][f % kSplit] = _mm512_dpbusd_epi32(products[r][f % kSplit], levels,
                                                          _mm512_set1_epi32(WordAt(at + 4 * r)));
          }
        }
      }
      const __m512 scale = Scales512(block, w);
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        __m512i sum = products[r][0];
        LAGOON_UNROLL for (int c = 1; c < kSplit; ++c) {
          sum = _mm512_add_epi32(sum, products[r][c]);
        }
        const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(tile.x_scale[b * kRows + r]));
        sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), by, sums[r]);
      }
    }
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(tile.sums + r * 16, sums[r]);
  }
};

/// Levels minus their middle as floats, of which a permutation takes those that the lowest four
/// bits name.
template <int kBits>
LAGOON_NBITS512 inline __m512 Middles512() {
  alignas(64) float table[16];
  for (int i = 0; i < 16; ++i) {
    table[i] = static_cast<float>((i & ((1 << kBits) - 1)) - (1 << (kBits - 1)));
  }
  return _mm512_load_ps(table);
}

/// The levels in the bits from `shift` on, minus their middle.
template <int kBits>
LAGOON_NBITS512 inline __m512 Level512(__m512i words, int shift, __m512 table) {
  const __m512i at = _mm512_srli_epi32(words, static_cast<unsigned>(shift));
  if constexpr (kBits < 8) return _mm512_permutexvar_ps(at, table);
  return _mm512_cvtepi32_ps(
      _mm512_sub_epi32(_mm512_and_si512(at, _mm512_set1_epi32(255)), _mm512_set1_epi32(128)));
}

template <int kBits, int kRows>
struct Floats512 {
  LAGOON_NBITS512 __attribute__((noinline)) static void Run(const NbitsTile& tile) {
    constexpr int kFields = 8 / kBits, kSplit = kRows <= 4 ? 4 : 1;
    const NbitsBlock& block = tile.block;
    const std::size_t vectors = block.field_depth() / 4, field = block.field_depth() * kRows;
    const __m512 table = Middles512 < kBits < 8 ? kBits : 4 > ();
    __m512 sums[kRows];
    Load512<kRows>(tile, sums);
    const std::byte* w = tile.weights;
    const float* x = tile.x;
    for (std::size_t b = 0; b < tile.blocks; ++b, w += block.bytes(), x += block.depth * kRows) {
      Prefetch(w, block.bytes());
      __m512 products[kRows][kSplit];
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        LAGOON_UNROLL for (int c = 0; c < kSplit; ++c) products[r][c] = _mm512_setzero_ps();
      }
      // The zero points count from the middle.
      const __m512 zeros = _mm512_cvtepi32_ps(
          _mm512_sub_epi32(Zeros512(block, w), _mm512_set1_epi32(1 << (kBits - 1))));
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m512i words = _mm512_loadu_si512(w + v * kNbitsVector);
        LAGOON_UNROLL for (int f = 0; f < kFields; ++f) {
          const float* const at = x + f * field + v * 4 * kRows;
          LAGOON_UNROLL for (int i = 0; i < 4; ++i) {
            __m512 level = Level512<kBits>(words, 8 * i + f * kBits, table);
            if (block.zeros) level = _mm512_sub_ps(level, zeros);
            LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
              products[r][i % kSplit] = _mm512_fmadd_ps(level, _mm512_set1_ps(at[i * kRows + r]),
                                                        products[r][i % kSplit]);
            }
          }
        }
      }
      const __m512 scale = Scales512(block, w);
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        __m512 sum = products[r][0];
        LAGOON_UNROLL for (int c = 1; c < kSplit; ++c) sum = _mm512_add_ps(sum, products[r][c]);
        sums[r] = _mm512_fmadd_ps(sum, scale, sums[r]);
      }
    }
    LAGOON_UNROLL for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(tile.sums + r * 16, sums[r]);
  }
};

template <template <int, int> typename Micro, int kBits>
void RunRows512(const NbitsTile& tile) {
  switch (tile.rows) {
    case 1:
      return Micro<kBits, 1>::Run(tile);
    case 2:
      return Micro<kBits, 2>::Run(tile);
    case 4:
      return Micro<kBits, 4>::Run(tile);
    case 8:
      return Micro<kBits, 8>::Run(tile);
    default:
      return Micro<kBits, 12>::Run(tile);
  }
}

template <template <int, int> typename Micro>
void Run512(const NbitsTile& tile) {
  if (tile.block.bits == 4) return RunRows512<Micro, 4>(tile);
  if (tile.block.bits == 8) return RunRows512<Micro, 8>(tile);
  RunRows512<Micro, 2>(tile);
}

LAGOON_NBITS512 void Round512(const NbitsRow& row) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (std::size_t b = 0; b < row.blocks; ++b) {
    const float* const x = row.x + b * row.block;
    __m512i most_bits = _mm512_setzero_si512();
    for (std::size_t i = 0; i < row.block; i += 16) {
      most_bits =
          _mm512_max_epu32(most_bits, _mm512_and_si512(_mm512_loadu_si512(x + i), magnitude));
    }
    const NbitsFactors factors(_mm512_reduce_max_epu32(most_bits));
    const __m512 by = _mm512_set1_ps(factors.by);
    __m512i sum = _mm512_setzero_si512();
    for (std::size_t i = 0; i < row.block; i += 16) {
      const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + i), by);
      const __m512i level = factors.counts ? _mm512_cvtps_epi32(scaled) : _mm512_setzero_si512();
      sum = _mm512_add_epi32(sum, level);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row.bytes + b * row.block + i),
                       _mm512_cvtepi32_epi8(level));
    }
    row.scale[b] = factors.scale;
    row.sum[b] = _mm512_reduce_add_epi32(sum);
  }
}

}  // namespace
}  // namespace nbits

const NbitsUnit kNbitsVnni512 = {"AVX512-VNNI",
                                 0.35,
                                 0.2,
                                 0.17,
                                 0.7,
                                 &nbits::Run512<nbits::Bytes512>,
                                 &nbits::Run512<nbits::Floats512>,
                                 &nbits::Round512};

}  // namespace lagoon
#endif
