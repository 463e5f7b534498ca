#pragma once

// Products of matrices. With AVX2 and FMA, where the machine has them, they are about four times as
// fast as Eigen's for every x86-64, and training consists of little else.

#include <cstddef>

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
  kEigen,  // any x86-64
  kAvx2,   // AVX2 and FMA
};
/// kAvx2 if this machine can.
ProductPath BestProductPath();

/// out = a b, of the size a.rows x b.columns. `out`: row-major and dense, does not overlap with the
/// factors. kAvx2 sums up each element in the order of a's columns. `path`: one that the machine
/// has.
void Multiply(const MatrixView& a, const MatrixView& b, float* out,
              ProductPath path = BestProductPath());

}  // namespace lagoon::learn
