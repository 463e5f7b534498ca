#include "learn/product.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace lagoon::learn {
namespace {

// A tile of the result has up to kTileRows rows and kTileColumns columns, which fill the registers.
constexpr Eigen::Index kTileRows = 6, kTileColumns = 16;

// Adds up a tile: kRows rows of `a` times a panel of 16 packed columns. `out`: rows of
// kTileColumns elements, `out_stride` apart.
template <int kRows>
__attribute__((target("avx2,fma"))) void MultiplyTile(const MatrixView& a, const float* panel,
                                                      float* out, std::ptrdiff_t out_stride) {
  __m256 sums[kRows][2];
  for (int row = 0; row < kRows; ++row) {
    sums[row][0] = _mm256_setzero_ps();
    sums[row][1] = _mm256_setzero_ps();
  }
  const float* column = a.data;
  for (Eigen::Index k = 0; k < a.columns; ++k, column += a.column_stride, panel += kTileColumns) {
    const __m256 low = _mm256_loadu_ps(panel), high = _mm256_loadu_ps(panel + 8);
    for (int row = 0; row < kRows; ++row) {
      const __m256 factor = _mm256_broadcast_ss(column + row * a.row_stride);
      sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
      sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    _mm256_storeu_ps(out + row * out_stride, sums[row][0]);
    _mm256_storeu_ps(out + row * out_stride + 8, sums[row][1]);
  }
}

void MultiplyRows(const MatrixView& a, const float* panel, float* out, std::ptrdiff_t out_stride) {
  switch (a.rows) {
    case 1:
      return MultiplyTile<1>(a, panel, out, out_stride);
    case 2:
      return MultiplyTile<2>(a, panel, out, out_stride);
    case 3:
      return MultiplyTile<3>(a, panel, out, out_stride);
    case 4:
      return MultiplyTile<4>(a, panel, out, out_stride);
    case 5:
      return MultiplyTile<5>(a, panel, out, out_stride);
    default:
      return MultiplyTile<6>(a, panel, out, out_stride);
  }
}

// Columns [first, first + width) of `b`, row by row; missing columns are 0.
void Pack(const MatrixView& b, Eigen::Index first, Eigen::Index width, float* panel) {
  for (Eigen::Index k = 0; k < b.rows; ++k, panel += kTileColumns) {
    const float* row = b.data + k * b.row_stride + first * b.column_stride;
    for (Eigen::Index j = 0; j < width; ++j) panel[j] = row[j * b.column_stride];
    std::fill(panel + width, panel + kTileColumns, 0.0F);
  }
}

void MultiplyAvx2(const MatrixView& a, const MatrixView& b, float* out) {
  std::vector<float> panel(static_cast<std::size_t>(b.rows * kTileColumns));
  float edge[kTileRows * kTileColumns];
  for (Eigen::Index first = 0; first < b.columns; first += kTileColumns) {
    const Eigen::Index width = std::min(kTileColumns, b.columns - first);
    Pack(b, first, width, panel.data());
    for (Eigen::Index row = 0; row < a.rows; row += kTileRows) {
      MatrixView rows = a;
      rows.data += row * a.row_stride;
      rows.rows = std::min(kTileRows, a.rows - row);
      float* const to = out + row * b.columns + first;
      if (width == kTileColumns) {
        MultiplyRows(rows, panel.data(), to, b.columns);
        continue;
      }
      MultiplyRows(rows, panel.data(), edge, kTileColumns);
      for (Eigen::Index i = 0; i < rows.rows; ++i) {
        std::copy_n(edge + i * kTileColumns, width, to + i * b.columns);
      }
    }
  }
}

using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
using StridedMap = Eigen::Map<const Matrix, Eigen::Unaligned, Strides>;

StridedMap MapOf(const MatrixView& view) {
  return {view.data, view.rows, view.columns, Strides(view.row_stride, view.column_stride)};
}

}  // namespace

MatrixView ViewOf(const Matrix& matrix) {
  return {matrix.data(), matrix.rows(), matrix.cols(), matrix.cols(), 1};
}

ProductPath BestProductPath() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has ? ProductPath::kAvx2 : ProductPath::kEigen;
}

void Multiply(const MatrixView& a, const MatrixView& b, float* out, ProductPath path) {
  LAGOON_CHECK(a.columns == b.rows);
  if (path == ProductPath::kAvx2) return MultiplyAvx2(a, b, out);
  Eigen::Map<Matrix>(out, a.rows, b.columns).noalias() = MapOf(a) * MapOf(b);
}

}  // namespace lagoon::learn
