#pragma once

// Products of matrices. With AVX2 and FMA, where the machine has them, they are about four times as
// fast as Eigen's for every x86-64, with AVX-512 about eight times, and training consists of little
// else.

#include <cstddef>
#include <vector>

#include "learn/matrix.h"

namespace lagoon::learn {

/// Borrowed elements of a matrix: (row, column) lies at data[row * row_stride + column *
/// column_stride].
struct MatrixView {
  const float* data = nullptr;
  Eigen::Index rows = 0, columns = 0;
  std::ptrdiff_t row_stride = 0, column_stride = 1;

  MatrixView Transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};
MatrixView ViewOf(const Matrix& matrix);

enum class ProductPath {
  kEigen,   // any x86-64
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512
};
/// Those of this machine, the fastest last.
const std::vector<ProductPath>& ProductPaths();

/// out = a b, of the size a.rows x b.columns. `out`: row-major and dense, does not overlap with the
/// factors. kAvx2 and kAvx512 give the same bits: they sum up each element in the order of a's
/// columns. `path`: one of ProductPaths().
void Multiply(const MatrixView& a, const MatrixView& b, float* out,
              ProductPath path = ProductPaths().back());

}  // namespace lagoon::learn
