#pragma once

// For tests on a machine that has only AVX-512: functions that emulate the instructions of
// AMX-BF16, AMX-INT8 and AVX512-BF16 that the units of kernels/conv use. A check fails where the
// CPU would fault or would read what was never written. Sums of bf16 are rounded after every
// product, in another order than on the CPU.

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "kernels/conv/bf16/bf16_unit.h"

namespace lagoon::emulated {

#define LAGOON_EMULATED __attribute__((target("avx512f"))) inline

// ---- AVX512-BF16. A register of bf16 is one of integers here.

using Register = __m512i;

/// Converts 32 floats, the lower 16 of which are in `low`.
LAGOON_EMULATED Register Convert(__m512 high, __m512 low) {
  alignas(64) float from[32];
  alignas(64) Bf16 to[32];
  _mm512_store_ps(from, low);
  _mm512_store_ps(from + 16, high);
  for (int i = 0; i < 32; ++i) to[i] = ToBf16(from[i]);
  return _mm512_load_si512(to);
}

/// Converts the upper halves of 16 words to floats. As on the CPU, denormals become zero.
LAGOON_EMULATED __m512 Widen(__m512i halves) {
  const __mmask16 normal = _mm512_test_epi32_mask(halves, _mm512_set1_epi32(0x7f800000));
  return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(normal, halves));
}

/// The first bf16 of each pair, moved up. Masked, because gcc 12 warns about the plain intrinsic.
LAGOON_EMULATED __m512i LowerHalves(Register pairs) {
  return _mm512_maskz_slli_epi32(0xffff, pairs, 16);
}

/// Adds the products of the pairs of bf16 in `a` and `b`.
LAGOON_EMULATED __m512 Multiply(__m512 sums, Register a, Register b) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const __m512 first = _mm512_mul_ps(Widen(LowerHalves(a)), Widen(LowerHalves(b)));
  const __m512 second =
      _mm512_mul_ps(Widen(_mm512_and_si512(a, upper)), Widen(_mm512_and_si512(b, upper)));
  return _mm512_add_ps(_mm512_add_ps(sums, first), second);
}

// ---- AMX

inline constexpr int kTiles = 8, kTileRows = 16, kTileBytes = 64;

/// The operand of LDTILECFG. The callers pass the bytes of tiles::Config.
struct Config {
  std::uint8_t palette = 0, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// The tile registers of one thread.
struct Tiles {
  Config config;
  bool written[kTiles] = {};
  std::uint8_t bytes[kTiles][kTileRows][kTileBytes] = {};
};

inline Tiles& ThisThreads() {
  static thread_local Tiles tiles;
  return tiles;
}

inline void Configure(const void* from) {
  Tiles fresh;
  std::memcpy(&fresh.config, from, sizeof(Config));
  LAGOON_CHECK(fresh.config.palette == 1);
  for (int tile = 0; tile < kTiles; ++tile) {
    LAGOON_CHECK(fresh.config.rows[tile] <= kTileRows);
    LAGOON_CHECK(fresh.config.row_bytes[tile] <= kTileBytes);
    LAGOON_CHECK((fresh.config.rows[tile] == 0) == (fresh.config.row_bytes[tile] == 0));
  }
  ThisThreads() = fresh;
}

inline void Release() { ThisThreads() = {}; }

inline void CheckConfigured(int tile) {
  LAGOON_CHECK(ThisThreads().config.palette == 1 && ThisThreads().config.rows[tile] != 0);
}

inline void Load(int tile, const void* from, long pitch) {
  CheckConfigured(tile);
  Tiles& tiles = ThisThreads();
  for (int row = 0; row < tiles.config.rows[tile]; ++row) {
    std::memcpy(tiles.bytes[tile][row], static_cast<const std::uint8_t*>(from) + row * pitch,
                tiles.config.row_bytes[tile]);
  }
  tiles.written[tile] = true;
}

inline void Store(int tile, void* to, long pitch) {
  CheckConfigured(tile);
  const Tiles& tiles = ThisThreads();
  LAGOON_CHECK(tiles.written[tile]);
  for (int row = 0; row < tiles.config.rows[tile]; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(to) + row * pitch, tiles.bytes[tile][row],
                tiles.config.row_bytes[tile]);
  }
}

/// Checks that c += a * b is a product; the pairs or quads lie along the columns of a and of b.
inline Tiles& CheckedFactors(int c, int a, int b) {
  Tiles& tiles = ThisThreads();
  const Config& config = tiles.config;
  for (const int tile : {a, b, c}) {
    CheckConfigured(tile);
    LAGOON_CHECK(tiles.written[tile]);
  }
  LAGOON_CHECK(a != b && b != c && a != c);
  LAGOON_CHECK(config.rows[a] == config.rows[c] && config.row_bytes[a] == 4 * config.rows[b]);
  LAGOON_CHECK(config.row_bytes[b] == config.row_bytes[c]);
  return tiles;
}

LAGOON_EMULATED void MultiplyTiles(int c, int a, int b) {
  Tiles& tiles = CheckedFactors(c, a, b);
  const Config& config = tiles.config;
  for (int row = 0; row < config.rows[c]; ++row) {
    __m512 sums = _mm512_loadu_ps(tiles.bytes[c][row]);
    for (int pair = 0; pair < config.rows[b]; ++pair) {
      std::int32_t left;
      std::memcpy(&left, tiles.bytes[a][row] + pair * sizeof(left), sizeof(left));
      sums = Multiply(sums, _mm512_set1_epi32(left), _mm512_loadu_si512(tiles.bytes[b][pair]));
    }
    _mm512_storeu_ps(tiles.bytes[c][row], sums);
  }
}

/// Of unsigned bytes in a and signed ones in b, with sums of 32 bits.
inline void MultiplyByteTiles(int c, int a, int b) {
  Tiles& tiles = CheckedFactors(c, a, b);
  const Config& config = tiles.config;
  for (int row = 0; row < config.rows[c]; ++row) {
    std::int32_t sums[kTileBytes / 4];
    std::memcpy(sums, tiles.bytes[c][row], sizeof(sums));
    for (int i = 0; i < config.rows[b] * config.row_bytes[c]; ++i) {
      const int quad = i / config.row_bytes[c], at = i % config.row_bytes[c];
      sums[at / 4] += tiles.bytes[a][row][quad * 4 + at % 4] *
                      static_cast<std::int8_t>(tiles.bytes[b][quad][at]);
    }
    std::memcpy(tiles.bytes[c][row], sums, sizeof(sums));
  }
}

}  // namespace lagoon::emulated

#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#define _tile_loadconfig(from) ::lagoon::emulated::Configure(from)
#define _tile_release() ::lagoon::emulated::Release()
#define _tile_loadd(tile, from, pitch) ::lagoon::emulated::Load(tile, from, pitch)
#define _tile_stored(tile, to, pitch) ::lagoon::emulated::Store(tile, to, pitch)
#define _tile_dpbf16ps(c, a, b) ::lagoon::emulated::MultiplyTiles(c, a, b)
#define _tile_dpbusd(c, a, b) ::lagoon::emulated::MultiplyByteTiles(c, a, b)
#define _mm512_cvtne2ps_pbh(high, low) ::lagoon::emulated::Convert(high, low)
#define _mm512_dpbf16_ps(sums, a, b) ::lagoon::emulated::Multiply(sums, a, b)
#define __m512bh ::lagoon::emulated::Register
