// In intrinsics, because Highway 1.0 supports neither AMX nor AVX512-BF16.

#include "kernels/conv/bf16/bf16_unit.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/conv/bf16/tiles_x86.h"
#include "kernels/simd/unroll.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#define LAGOON_HAS_BF16_UNITS 1
#endif

namespace lagoon {

#ifdef LAGOON_HAS_BF16_UNITS
namespace {

#define LAGOON_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/// Weights of one step of half a panel.
constexpr std::size_t kHalfElements = std::size_t{kBf16Step} * kBf16Vector;
constexpr std::size_t kVectorBytes = kBf16Vector * sizeof(float);

LAGOON_AVX512_BF16 inline __m512bh AsBf16(__m512i v) { return reinterpret_cast<__m512bh>(v); }

LAGOON_AVX512_BF16 void Convert(const float* from, std::size_t count, Bf16* to) {
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m512bh v =
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
    _mm512_storeu_si512(to + i, reinterpret_cast<__m512i>(v));
  }
  if (i == count) return;
  const auto mask = static_cast<__mmask32>((std::uint64_t{1} << (count - i)) - 1);
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from + i);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + i + 16);
  const __m512bh v = _mm512_cvtne2ps_pbh(high, low);
  _mm512_mask_storeu_epi16(to + i, mask, reinterpret_cast<__m512i>(v));
}

// ---- AVX512-BF16

constexpr std::uint32_t kVectorRows = 8;  // two registers of sums per row, and two of weights

template <int kRows, int kHalves>
LAGOON_AVX512_BF16 void MultiplyRows(const Bf16Tile& tile, std::uint32_t first) {
  const std::byte* a = reinterpret_cast<const std::byte*>(tile.a) + first * tile.a_pitch;
  float* const sums = tile.sums + std::size_t{first} * kHalves * kBf16Vector;
  __m512 acc[kRows][kHalves];
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    LAGOON_UNROLL for (int h = 0; h < kHalves; ++h) {
      acc[r][h] = tile.resume ? _mm512_load_ps(sums + (r * kHalves + h) * kBf16Vector)
                              : _mm512_loadu_ps(tile.bias + h * kBf16Vector);
    }
  }
  const Bf16* weights = tile.weights;
  for (std::uint32_t step = 0; step < tile.steps; ++step) {
    for (std::uint32_t pair = 0; pair < kBf16Step / 2; ++pair, a += 2 * sizeof(Bf16)) {
      __m512bh b[kHalves];
      LAGOON_UNROLL for (int h = 0; h < kHalves; ++h) {
        b[h] = AsBf16(_mm512_load_si512(weights + h * kHalfElements + pair * 2 * kBf16Vector));
      }
      LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
        std::int32_t two;
        std::memcpy(&two, a + r * tile.a_pitch, sizeof(two));
        const __m512bh factor = AsBf16(_mm512_set1_epi32(two));
        LAGOON_UNROLL for (int h = 0; h < kHalves; ++h) {
          acc[r][h] = _mm512_dpbf16_ps(acc[r][h], factor, b[h]);
        }
      }
    }
    weights += kHalves * kHalfElements;
  }
  LAGOON_UNROLL for (int r = 0; r < kRows; ++r) {
    LAGOON_UNROLL for (int h = 0; h < kHalves; ++h) {
      _mm512_store_ps(sums + (r * kHalves + h) * kBf16Vector, acc[r][h]);
    }
  }
}

/// Multiplies the last rows, fewer than kVectorRows.
template <int kRows, int kHalves>
void MultiplyRest(const Bf16Tile& tile, std::uint32_t first) {
  if constexpr (kRows > 0) {
    if (tile.rows - first == kRows) return MultiplyRows<kRows, kHalves>(tile, first);
    MultiplyRest<kRows - 1, kHalves>(tile, first);
  }
}

template <int kHalves>
void MultiplyVectors(const Bf16Tile& tile) {
  std::uint32_t row = 0;
  for (; row + kVectorRows <= tile.rows; row += kVectorRows) {
    MultiplyRows<kVectorRows, kHalves>(tile, row);
  }
  MultiplyRest<kVectorRows - 1, kHalves>(tile, row);
}

void Nothing() {}
void NothingFor(std::uint32_t) {}

// ---- AMX

void EnterTiles(std::uint32_t rows) {
  const std::uint32_t upper = rows < tiles::kRows ? rows : tiles::kRows;
  tiles::Enter(upper, rows - upper);
}
void LeaveTiles() { tiles::Leave(); }

template <bool kLower, int kHalves>
LAGOON_TILES void MultiplyTiles(const Bf16Tile& tile) {
  tiles::Fence();
  constexpr long kPitch = kHalves * static_cast<long>(kVectorBytes);
  float* const sums = tile.sums;
  float* const lower_sums = sums + 16 * kHalves * kBf16Vector;
  if (tile.resume) {
    _tile_loadd(0, sums, kPitch);
    if constexpr (kHalves == 2) _tile_loadd(1, sums + kBf16Vector, kPitch);
    if constexpr (kLower) _tile_loadd(2, lower_sums, kPitch);
    if constexpr (kLower && kHalves == 2) _tile_loadd(3, lower_sums + kBf16Vector, kPitch);
  } else {
    // A pitch of zero loads the bias into every row.
    _tile_loadd(0, tile.bias, 0);
    if constexpr (kHalves == 2) _tile_loadd(1, tile.bias + kBf16Vector, 0);
    if constexpr (kLower) _tile_loadd(2, tile.bias, 0);
    if constexpr (kLower && kHalves == 2) _tile_loadd(3, tile.bias + kBf16Vector, 0);
  }
  const auto* a = reinterpret_cast<const std::byte*>(tile.a);
  const long pitch = static_cast<long>(tile.a_pitch);
  const Bf16* weights = tile.weights;
  for (std::uint32_t step = 0; step < tile.steps; ++step) {
    _tile_loadd(4, a, pitch);
    _tile_loadd(6, weights, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kHalves == 2) {
      _tile_loadd(7, weights + kHalfElements, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kLower) {
      _tile_loadd(5, a + 16 * pitch, pitch);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kLower && kHalves == 2) _tile_dpbf16ps(3, 5, 7);
    a += kBf16Step * sizeof(Bf16);
    weights += kHalves * kHalfElements;
  }
  _tile_stored(0, sums, kPitch);
  if constexpr (kHalves == 2) _tile_stored(1, sums + kBf16Vector, kPitch);
  if constexpr (kLower) _tile_stored(2, lower_sums, kPitch);
  if constexpr (kLower && kHalves == 2) _tile_stored(3, lower_sums + kBf16Vector, kPitch);
  tiles::Fence();
}

template <int kHalves>
void MultiplyInTiles(const Bf16Tile& tile) {
  return tile.rows > 16 ? MultiplyTiles<true, kHalves>(tile) : MultiplyTiles<false, kHalves>(tile);
}

// Measured on one core of a Xeon (Sapphire Rapids) at 2 GHz. There VDPBF16PS has half the rate of
// an fp32 multiply-add, and tiles have eight times that rate.
constexpr Bf16Unit kAmxUnit = {"AMX-BF16",
                               "conv2d_bf16_amx",
                               CpuLevel::kAmx,
                               1.0,
                               8,
                               &EnterTiles,
                               {&MultiplyInTiles<1>, &MultiplyInTiles<2>},
                               &LeaveTiles,
                               &Convert};
constexpr Bf16Unit kVectorUnit = {"AVX512-BF16",
                                  "conv2d_bf16_avx512",
                                  CpuLevel::kAvx512Bf16,
                                  27,
                                  0,
                                  &NothingFor,
                                  {&MultiplyVectors<1>, &MultiplyVectors<2>},
                                  &Nothing,
                                  &Convert};
constexpr std::array<const Bf16Unit*, 2> kUnits = {&kAmxUnit, &kVectorUnit};

}  // namespace
#else
namespace {

constexpr std::array<const Bf16Unit*, 0> kUnits = {};

}  // namespace
#endif

std::span<const Bf16Unit* const> Bf16UnitsOf(CpuLevel level) {
  const std::span<const Bf16Unit* const> all(kUnits);
  std::size_t above = 0;
  while (above < all.size() && all[above]->level > level) ++above;
  return all.subspan(above);
}

Result<const Bf16Unit*> FindBf16Unit(CpuLevel level) {
  const std::span<const Bf16Unit* const> units = Bf16UnitsOf(level);
  if (!units.empty()) return units.front();
  return Fail(
      ErrorCode::kUnimplemented,
      fmt::format("precision 'bf16' needs a CPU of level '{}' or above, and LAGOON_CPU must "
                  "not lower the level; this process runs at level '{}'",
                  NameOf(CpuLevel::kAvx512Bf16), NameOf(level)));
}

Status CheckPrecision(Precision precision) {
  if (precision == Precision::kFp32) return {};
  LAGOON_RETURN_IF_ERROR(FindBf16Unit());
  return {};
}

Bf16 ToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return Bf16{static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  if ((bits & 0x7f800000) == 0) return Bf16{static_cast<std::uint16_t>(bits >> 16 & 0x8000)};
  // Adds half of the last place, less one if the kept part is even: halves are rounded to even.
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return Bf16{static_cast<std::uint16_t>(rounded >> 16)};
}

}  // namespace lagoon
