#include "learn/product.h"

#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace lagoon::learn {
namespace {

// Adds up a tile of the result. `a`: a column of the tile's rows for each k. `b`: a row of the
// tile's columns for each k, `b_stride` elements apart. `out`: rows of the tile's columns, dense.
using TileProduct = void (*)(const float* a, const float* b, std::ptrdiff_t b_stride,
                             Eigen::Index depth, float* out);

// Tiles fill the registers with sums.
constexpr int kAvx2Rows = 6, kAvx2Columns = 16;
constexpr int kAvx512Rows = 12, kAvx512Columns = 32;

template <int kRows>
__attribute__((target("avx2,fma"))) void MultiplyAvx2(const float* a, const float* b,
                                                      std::ptrdiff_t b_stride, Eigen::Index depth,
                                                      float* out) {
  __m256 sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = _mm256_setzero_ps();
  for (Eigen::Index k = 0; k < depth; ++k, a += kRows, b += b_stride) {
    const __m256 low = _mm256_loadu_ps(b), high = _mm256_loadu_ps(b + 8);
    for (int row = 0; row < kRows; ++row) {
      const __m256 factor = _mm256_broadcast_ss(a + row);
      sums[row][0] = _mm256_fmadd_ps(factor, low, sums[row][0]);
      sums[row][1] = _mm256_fmadd_ps(factor, high, sums[row][1]);
    }
  }
  for (int row = 0; row < kRows; ++row, out += kAvx2Columns) {
    _mm256_storeu_ps(out, sums[row][0]);
    _mm256_storeu_ps(out + 8, sums[row][1]);
  }
}

template <int kRows>
__attribute__((target("avx512f"))) void MultiplyAvx512(const float* a, const float* b,
                                                       std::ptrdiff_t b_stride, Eigen::Index depth,
                                                       float* out) {
  __m512 sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = _mm512_setzero_ps();
  for (Eigen::Index k = 0; k < depth; ++k, a += kRows, b += b_stride) {
    const __m512 low = _mm512_loadu_ps(b), high = _mm512_loadu_ps(b + 16);
    for (int row = 0; row < kRows; ++row) {
      const __m512 factor = _mm512_set1_ps(a[row]);
      sums[row][0] = _mm512_fmadd_ps(factor, low, sums[row][0]);
      sums[row][1] = _mm512_fmadd_ps(factor, high, sums[row][1]);
    }
  }
  for (int row = 0; row < kRows; ++row, out += kAvx512Columns) {
    _mm512_storeu_ps(out, sums[row][0]);
    _mm512_storeu_ps(out + 16, sums[row][1]);
  }
}

struct Tile {
  Eigen::Index rows, columns;
  TileProduct multiply;
};

// A single row, as when one state is judged, has a tile of its own.
Tile TileFor(ProductPath path, Eigen::Index rows) {
  if (path == ProductPath::kAvx512) {
    if (rows == 1) return {1, kAvx512Columns, MultiplyAvx512<1>};
    return {kAvx512Rows, kAvx512Columns, MultiplyAvx512<kAvx512Rows>};
  }
  if (rows == 1) return {1, kAvx2Columns, MultiplyAvx2<1>};
  return {kAvx2Rows, kAvx2Columns, MultiplyAvx2<kAvx2Rows>};
}

// Columns [first, first + count) of `view`, row by row, each row filled up with 0 to `width`.
void Pack(const MatrixView& view, Eigen::Index first, Eigen::Index count, Eigen::Index width,
          float* packed) {
  const float* from = view.data + first * view.column_stride;
  if (count < width) std::fill_n(packed, view.rows * width, 0.0F);
  if (view.column_stride == 1) {
    for (Eigen::Index k = 0; k < view.rows; ++k) {
      std::copy_n(from + k * view.row_stride, count, packed + k * width);
    }
    return;
  }
  for (Eigen::Index j = 0; j < count; ++j, from += view.column_stride) {
    for (Eigen::Index k = 0; k < view.rows; ++k) packed[k * width + j] = from[k * view.row_stride];
  }
}

void MultiplyTiles(const MatrixView& a, const MatrixView& b, const Tile& tile, float* out) {
  const Eigen::Index depth = a.columns;
  const MatrixView a_columns = a.Transposed();
  const Eigen::Index row_tiles = (a.rows + tile.rows - 1) / tile.rows;
  std::vector<float> a_packed(static_cast<std::size_t>(row_tiles * tile.rows * depth));
  for (Eigen::Index i = 0; i < row_tiles; ++i) {
    const Eigen::Index first = i * tile.rows;
    Pack(a_columns, first, std::min(tile.rows, a.rows - first), tile.rows,
         a_packed.data() + first * depth);
  }
  std::vector<float> panel(static_cast<std::size_t>(tile.columns * depth));
  float sums[kAvx512Rows * kAvx512Columns];
  for (Eigen::Index column = 0; column < b.columns; column += tile.columns) {
    const Eigen::Index width = std::min(tile.columns, b.columns - column);
    const float* rows_of_b = b.data + column;
    std::ptrdiff_t stride = b.row_stride;
    // What one tile reads once is not worth a copy.
    if (row_tiles > 1 || b.column_stride != 1 || width < tile.columns) {
      Pack(b, column, width, tile.columns, panel.data());
      rows_of_b = panel.data();
      stride = tile.columns;
    }
    for (Eigen::Index row = 0; row < a.rows; row += tile.rows) {
      tile.multiply(a_packed.data() + row * depth, rows_of_b, stride, depth, sums);
      const Eigen::Index rows = std::min(tile.rows, a.rows - row);
      for (Eigen::Index i = 0; i < rows; ++i) {
        std::copy_n(sums + i * tile.columns, width, out + (row + i) * b.columns + column);
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

const std::vector<ProductPath>& ProductPaths() {
  static const std::vector<ProductPath> paths = [] {
    std::vector<ProductPath> all = {ProductPath::kEigen};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return all;
    all.push_back(ProductPath::kAvx2);
    if (__builtin_cpu_supports("avx512f")) all.push_back(ProductPath::kAvx512);
    return all;
  }();
  return paths;
}

void Multiply(const MatrixView& a, const MatrixView& b, float* out, ProductPath path) {
  LAGOON_CHECK(a.columns == b.rows);
  if (path != ProductPath::kEigen) return MultiplyTiles(a, b, TileFor(path, a.rows), out);
  Eigen::Map<Matrix>(out, a.rows, b.columns).noalias() = MapOf(a) * MapOf(b);
}

}  // namespace lagoon::learn
