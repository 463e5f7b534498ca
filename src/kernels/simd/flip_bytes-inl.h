// Transposition of a matrix of bytes in memory, once per Highway target. Include after
// foreach_target.h.

#if defined(LAGOON_KERNELS_FLIP_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_FLIP_BYTES_INL_H_
#undef LAGOON_KERNELS_FLIP_BYTES_INL_H_
#else
#define LAGOON_KERNELS_FLIP_BYTES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/simd/flip-inl.h"
#include "kernels/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FlipTileOfBytes = FlipTileOf<std::uint8_t>;

#if HWY_TARGET == HWY_SCALAR

/// Transposes a matrix.
struct FlipBytes {
  static HWY_INLINE void Run(const FlipTileOfBytes& t) {
    FlipPlain(t, {0, t.rows}, {0, t.columns});
  }
};

/// Transposes a matrix of `kRows` rows whose columns lie one after the other in y.
template <size_t kRows>
struct InterleaveBytes {
  static HWY_INLINE void Run(const FlipTileOfBytes& t) { FlipPlain(t, {0, kRows}, {0, t.columns}); }
};

#else

using FlipVector = hn::FixedTag<std::uint8_t, 16>;
using FlipHalf = hn::FixedTag<std::uint8_t, 8>;

/// One round of a transposition. A byte's address is the number of its vector, then that of its
/// lane; a round rotates the bits of all addresses by one.
template <size_t kVectors>
HWY_INLINE void FlipRound(const hn::Vec<FlipVector> (&from)[kVectors],
                          hn::Vec<FlipVector> (&to)[kVectors]) {
  const FlipVector d;
  LAGOON_UNROLL
  for (size_t i = 0; i < kVectors / 2; ++i) {
    to[2 * i] = hn::InterleaveLower(d, from[i], from[i + kVectors / 2]);
    to[2 * i + 1] = hn::InterleaveUpper(d, from[i], from[i + kVectors / 2]);
  }
}

HWY_INLINE void FlipSquare16(const std::uint8_t* x, size_t x_row, std::uint8_t* y,
                             size_t y_column) {
  const FlipVector d;
  hn::Vec<FlipVector> a[16], b[16];
  LAGOON_UNROLL
  for (size_t i = 0; i < 16; ++i) a[i] = hn::LoadU(d, x + i * x_row);
  FlipRound(a, b);
  FlipRound(b, a);
  FlipRound(a, b);
  FlipRound(b, a);
  LAGOON_UNROLL
  for (size_t i = 0; i < 16; ++i) hn::StoreU(a[i], d, y + i * y_column);
}

HWY_INLINE hn::Vec<FlipVector> LoadFlipHalf(const std::uint8_t* x) {
  return hn::ZeroExtendVector(FlipVector(), hn::LoadU(FlipHalf(), x));
}

/// Two rows lie in one vector after the first round, two columns after the last one.
HWY_INLINE void FlipSquare8(const std::uint8_t* x, size_t x_row, std::uint8_t* y, size_t y_column) {
  const FlipVector d;
  const FlipHalf half;
  hn::Vec<FlipVector> a[4], b[4];
  LAGOON_UNROLL
  for (size_t i = 0; i < 4; ++i) {
    a[i] = hn::InterleaveLower(d, LoadFlipHalf(x + i * x_row), LoadFlipHalf(x + (i + 4) * x_row));
  }
  FlipRound(a, b);
  FlipRound(b, a);
  LAGOON_UNROLL
  for (size_t i = 0; i < 4; ++i) {
    hn::StoreU(hn::LowerHalf(half, a[i]), half, y + 2 * i * y_column);
    hn::StoreU(hn::UpperHalf(half, a[i]), half, y + (2 * i + 1) * y_column);
  }
}

/// Covers a matrix with squares. The last ones of a row or a column overlap their neighbours.
template <size_t kSide>
HWY_INLINE void FlipSquares(const FlipTileOfBytes& t) {
  for (size_t c = 0; c < t.columns; c += kSide) {
    const size_t column = std::min(c, t.columns - kSide);
    for (size_t r = 0; r < t.rows; r += kSide) {
      const size_t row = std::min(r, t.rows - kSide);
      const std::uint8_t* const x = t.x + row * t.x_row + column;
      std::uint8_t* const y = t.y + column * t.y_column + row;
      if constexpr (kSide == 16) {
        FlipSquare16(x, t.x_row, y, t.y_column);
      } else {
        FlipSquare8(x, t.x_row, y, t.y_column);
      }
    }
  }
}

/// Transposes a matrix.
struct FlipBytes {
  static HWY_INLINE void Run(const FlipTileOfBytes& t) {
    const size_t least = std::min(t.rows, t.columns);
    if (least >= 16) {
      FlipSquares<16>(t);
    } else if (least >= 8) {
      FlipSquares<8>(t);
    } else {
      FlipPlain(t, {0, t.rows}, {0, t.columns});
    }
  }
};

/// A vector of each row, as columns one after the other.
template <size_t kRows, class Tag>
HWY_INLINE void InterleaveRows(const Tag d, const std::uint8_t* x, size_t x_row, std::uint8_t* y) {
  static_assert(kRows >= 2 && kRows <= 4);
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + x_row);
  if constexpr (kRows == 2) {
    hn::StoreInterleaved2(r0, r1, d, y);
  } else if constexpr (kRows == 3) {
    hn::StoreInterleaved3(r0, r1, hn::LoadU(d, x + 2 * x_row), d, y);
  } else {
    hn::StoreInterleaved4(r0, r1, hn::LoadU(d, x + 2 * x_row), hn::LoadU(d, x + 3 * x_row), d, y);
  }
}

/// Covers at least a vector's columns with vectors. The last one overlaps its neighbour.
template <size_t kRows, class Tag>
HWY_INLINE void InterleaveColumns(const Tag d, const FlipTileOfBytes& t) {
  const size_t lanes = hn::Lanes(d);
  for (size_t c = 0; c < t.columns; c += lanes) {
    const size_t column = std::min(c, t.columns - lanes);
    InterleaveRows<kRows>(d, t.x + column, t.x_row, t.y + kRows * column);
  }
}

/// Transposes a matrix of `kRows` rows whose columns lie one after the other in y.
template <size_t kRows>
struct InterleaveBytes {
  static HWY_INLINE void Run(const FlipTileOfBytes& t) {
    if (t.columns >= 16) {
      InterleaveColumns<kRows>(FlipVector(), t);
    } else if (t.columns >= 8) {
      InterleaveColumns<kRows>(FlipHalf(), t);
    } else {
      FlipPlain(t, {0, kRows}, {0, t.columns});
    }
  }
};

#endif

struct CopyBytes {
  static HWY_INLINE void Run(const FlipTileOfBytes& t) { std::memcpy(t.y, t.x, t.columns); }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_FLIP_BYTES_INL_H_
