#pragma once

// The tile registers of AMX: sums 0 1 / 2 3, rows of the left operand 4 / 5, weights 6 7. The upper
// half of the rows is in 0, 1 and 4. Highway 1.0 has no AMX.

#include <cstdint>

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <atomic>
#ifdef LAGOON_EMULATED_BF16
#include "kernels/conv/bf16/emulated_bf16.h"
#endif

namespace lagoon::tiles {

#define LAGOON_TILES __attribute__((target("avx512f,amx-tile,amx-bf16,amx-int8")))

inline constexpr std::uint32_t kRows = 16;  // of a register; each row has 64 bytes

/// The operand of LDTILECFG, palette 1.
struct alignas(64) Config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(Config) == 64);

/// Prepares the registers of this thread for products of 1 to kRows rows in the upper half and 0 to
/// kRows in the lower one.
LAGOON_TILES inline void Enter(std::uint32_t upper, std::uint32_t lower_rows) {
  Config config;
  for (int tile = 0; tile < 8; ++tile) {
    const bool weights = tile >= 6, lower = tile == 2 || tile == 3 || tile == 5;
    const std::uint32_t count = weights ? kRows : lower ? lower_rows : upper;
    config.rows[tile] = static_cast<std::uint8_t>(count);
    config.row_bytes[tile] = count == 0 ? 0 : 64;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  _tile_loadconfig(&config);
}

LAGOON_TILES inline void Leave() { _tile_release(); }

/// The intrinsics of some compilers are not declared to access memory.
inline void Fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace lagoon::tiles
#endif
