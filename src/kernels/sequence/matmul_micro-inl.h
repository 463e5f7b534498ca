// Products of small matrices of any layout, once per Highway target. Include after
// foreach_target.h.

#if defined(LAGOON_KERNELS_MATMUL_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_MATMUL_MICRO_INL_H_
#undef LAGOON_KERNELS_MATMUL_MICRO_INL_H_
#else
#define LAGOON_KERNELS_MATMUL_MICRO_INL_H_
#endif

#include <algorithm>

#include "kernels/simd/flip-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

/// Rows that the micro-kernel computes at once, by two vectors of columns: as many sums as fit the
/// registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr size_t kMicroRows = 12;
#else
constexpr size_t kMicroRows = 6;
#endif

/// Rows of the left operand; strides in elements.
struct LeftRows {
  const float* data;
  size_t row, k;
  size_t rows;
};

/// At most two vectors of columns of the right operand; strides in elements.
struct RightPanel {
  const float* data;
  size_t k, column;
  size_t columns;
};

/// The sums of a panel: two vectors per row, whatever the number of columns.
struct PanelSums {
  float* data;
  size_t pitch;  // floats from row to row
};

/// Not inlined, because the compiler then keeps all sums in registers.
template <size_t kRows>
HWY_NOINLINE void MicroKernel(const LeftRows& a, const float* b, size_t b_k, size_t depth,
                              const PanelSums& sums) {
  const D d;
  const size_t lanes = simd::Lanes();
  V low[kRows], high[kRows];
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    low[r] = hn::LoadU(d, sums.data + r * sums.pitch);
    high[r] = hn::LoadU(d, sums.data + r * sums.pitch + lanes);
  }
  for (size_t p = 0; p < depth; ++p) {
    const V b_low = hn::LoadU(d, b + p * b_k);
    const V b_high = hn::LoadU(d, b + p * b_k + lanes);
    const float* const a_p = a.data + p * a.k;
    LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
      const V factor = hn::Set(d, a_p[r * a.row]);
      low[r] = hn::MulAdd(factor, b_low, low[r]);
      high[r] = hn::MulAdd(factor, b_high, high[r]);
    }
  }
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    hn::StoreU(low[r], d, sums.data + r * sums.pitch);
    hn::StoreU(high[r], d, sums.data + r * sums.pitch + lanes);
  }
}

/// MicroKernel for a.rows <= kRows.
template <size_t kRows>
HWY_INLINE void MicroRows(const LeftRows& a, const float* b, size_t b_k, size_t depth,
                          const PanelSums& sums) {
  if constexpr (kRows > 0) {
    if (a.rows == kRows) return MicroKernel<kRows>(a, b, b_k, depth, sums);
    MicroRows<kRows - 1>(a, b, b_k, depth, sums);
  }
}

/// Packs a panel as [depth, two vectors], with zeros behind its columns.
HWY_INLINE void PackPanel(const RightPanel& b, size_t depth, float* packed) {
  const size_t width = 2 * simd::Lanes();
  if (b.k == 1 && b.column != 1) {
    if (b.columns < width) simd::Fill(0, depth * width, packed);
    Flip::Run({b.data, packed, b.columns, depth, b.column, width});
    return;
  }
  for (size_t p = 0; p < depth; ++p) {
    const float* const from = b.data + p * b.k;
    float* const to = packed + p * width;
    if (b.column == 1) {
      simd::Copy(from, b.columns, to);
    } else {
      for (size_t j = 0; j < b.columns; ++j) to[j] = from[j * b.column];
    }
    std::fill(to + b.columns, to + width, 0.0f);
  }
}

/// sums[r][j] += a[r][p] * b[p][j] for `depth` values of p. `packed`: room for depth x two vectors.
HWY_INLINE void MultiplyPanel(const LeftRows& a, const RightPanel& b, size_t depth,
                              const PanelSums& sums, float* packed) {
  const size_t width = 2 * simd::Lanes();
  const float* from = b.data;
  size_t step = b.k;
  // For few rows packing costs more than it saves.
  if (b.columns < width || b.column != 1 || a.rows > kMicroRows) {
    PackPanel(b, depth, packed);
    from = packed;
    step = width;
  }
  for (size_t row = 0; row < a.rows; row += kMicroRows) {
    const LeftRows rows{a.data + row * a.row, a.row, a.k, std::min(kMicroRows, a.rows - row)};
    MicroRows<kMicroRows>(rows, from, step, depth, {sums.data + row * sums.pitch, sums.pitch});
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_MATMUL_MICRO_INL_H_
