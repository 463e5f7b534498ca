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
constexpr size_t kFlip = 1;

HWY_INLINE void FlipSquare(const float* x, size_t, float* y, size_t) { *y = *x; }
#else
constexpr size_t kFlip = 4;

/// Transposes a 4x4 square in registers.
HWY_INLINE void FlipSquare(const float* x, size_t x_row, float* y, size_t y_column) {
  const hn::FixedTag<float, 4> d;
  const auto r0 = hn::LoadU(d, x), r1 = hn::LoadU(d, x + x_row);
  const auto r2 = hn::LoadU(d, x + 2 * x_row), r3 = hn::LoadU(d, x + 3 * x_row);
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
      for (size_t r = 0; r < rows; r += kFlip) {
        FlipSquare(t.x + r * t.x_row + c, t.x_row, t.y + c * t.y_column + r, t.y_column);
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
