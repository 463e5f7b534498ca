// Transposition of a matrix in memory, once per Highway target. Include after foreach_target.h.

#if defined(LAGOON_KERNELS_FLIP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_FLIP_INL_H_
#undef LAGOON_KERNELS_FLIP_INL_H_
#else
#define LAGOON_KERNELS_FLIP_INL_H_
#endif

#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// One task: a part of a matrix. Strides in elements.
template <class T>
struct FlipTileOf {
  const T* x = nullptr;
  T* y = nullptr;
  size_t rows = 0, columns = 0;
  size_t x_row = 0, y_column = 0;
};
using FlipTile = FlipTileOf<float>;

template <class T>
HWY_INLINE void FlipPlain(const FlipTileOf<T>& t, Range rows, Range columns) {
  for (size_t c = columns.begin; c < columns.end; ++c) {
    for (size_t r = rows.begin; r < rows.end; ++r) t.y[c * t.y_column + r] = t.x[r * t.x_row + c];
  }
}

#if HWY_TARGET == HWY_SCALAR
constexpr size_t kFlip = 1, kFlipRows = 1;

template <size_t kRows>
HWY_INLINE void FlipStrip(const float* x, size_t, float* y, size_t) {
  *y = *x;
}
#else
constexpr size_t kFlip = 4;

/// Rows of a strip: a vector holds four elements of every fourth of them.
constexpr size_t kFlipRows = HWY_MIN(16, hn::MaxLanes(simd::D()));

template <size_t kRows>
HWY_INLINE auto LoadFours(const float* x, size_t x_row) {
  const hn::FixedTag<float, kRows> d;
  if constexpr (kRows == kFlip) {
    return hn::LoadU(d, x);
  } else {
    return hn::Combine(d, LoadFours<kRows / 2>(x + kRows / 2 * x_row, x_row),
                       LoadFours<kRows / 2>(x, x_row));
  }
}

/// Transposes `kRows` rows of four columns in registers.
template <size_t kRows>
HWY_INLINE void FlipStrip(const float* x, size_t x_row, float* y, size_t y_column) {
  const hn::FixedTag<float, kRows> d;
  const auto r0 = LoadFours<kRows>(x, x_row), r1 = LoadFours<kRows>(x + x_row, x_row);
  const auto r2 = LoadFours<kRows>(x + 2 * x_row, x_row);
  const auto r3 = LoadFours<kRows>(x + 3 * x_row, x_row);
  const auto a = hn::InterleaveLower(d, r0, r2), b = hn::InterleaveLower(d, r1, r3);
  const auto c = hn::InterleaveUpper(d, r0, r2), e = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, a, b), d, y);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, y + y_column);
  hn::StoreU(hn::InterleaveLower(d, c, e), d, y + 2 * y_column);
  hn::StoreU(hn::InterleaveUpper(d, c, e), d, y + 3 * y_column);
}
#endif

struct Flip {
  static HWY_INLINE void Run(const FlipTile& t) {
    const size_t rows = t.rows / kFlip * kFlip, columns = t.columns / kFlip * kFlip;
    for (size_t c = 0; c < columns; c += kFlip) {
      const float* const x = t.x + c;
      float* const y = t.y + c * t.y_column;
      size_t r = 0;
      for (; r + kFlipRows <= rows; r += kFlipRows) {
        FlipStrip<kFlipRows>(x + r * t.x_row, t.x_row, y + r, t.y_column);
      }
      if constexpr (kFlipRows != kFlip) {
        for (; r < rows; r += kFlip) FlipStrip<kFlip>(x + r * t.x_row, t.x_row, y + r, t.y_column);
      }
    }
    FlipPlain(t, {rows, t.rows}, {0, columns});
    FlipPlain(t, {0, t.rows}, {columns, t.columns});
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_FLIP_INL_H_
