#pragma once

// The units of x86, which need intrinsics: Highway 1.0 has no products of bytes.

#include "kernels/conv/int8/byte_unit.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <cstring>
#define LAGOON_HAS_BYTE_UNITS 1

namespace lagoon {

extern const ByteUnit kAmxInt8Unit, kVnni512Unit, kBytes512Unit, kVnni256Unit, kBytes256Unit;

namespace byte_unit {

void Copy(const ByteRows& rows);  // in plain C++

// Of kAmxInt8Unit.
void EnterInt8Tiles(std::size_t upper, std::size_t lower);
void MultiplyInt8Tiles(const ByteTile& tile);
void LeaveInt8Tiles();

/// How vectors add the products of quads, all of them exactly.
enum class ByteProduct : std::uint8_t {
  kVnni,    // by one instruction
  kNarrow,  // by pairs in 16 bits, into which they must fit
  kWide,    // in 32 bits: even bytes, then odd ones
};

/// Calls `Micro::Rows<n>(tile, first)` for all rows, in groups of `kMost` and a rest.
template <typename Micro, int kRows>
void MultiplyRest(const ByteTile& tile, std::size_t first) {
  if constexpr (kRows > 0) {
    if (tile.rows - first == kRows) return Micro::template Rows<kRows>(tile, first);
    MultiplyRest<Micro, kRows - 1>(tile, first);
  }
}

template <typename Micro>
void MultiplyAll(const ByteTile& tile) {
  std::size_t row = 0;
  for (; row + Micro::kMost <= tile.rows; row += Micro::kMost) {
    Micro::template Rows<Micro::kMost>(tile, row);
  }
  MultiplyRest<Micro, Micro::kMost - 1>(tile, row);
}

template <template <ByteProduct> typename Micro>
void MultiplyWithoutVnni(const ByteTile& tile) {
  return tile.wide ? MultiplyAll<Micro<ByteProduct::kWide>>(tile)
                   : MultiplyAll<Micro<ByteProduct::kNarrow>>(tile);
}

inline std::int32_t QuadAt(const std::uint8_t* x) {
  std::int32_t quad;
  std::memcpy(&quad, x, sizeof(quad));
  return quad;
}

}  // namespace byte_unit
}  // namespace lagoon
#endif
