#pragma once

// The arguments that the factory of transposition passes to its bodies.

#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "kernels/strided.h"

namespace lagoon {

/// Axes that stay neighbours are joined. Below some outer axes there remain either runs of
/// `columns` elements that stay together, or matrices of `rows` x `columns` (in x's layout) to be
/// transposed.
template <class T>
struct TransposeArgsOf {
  const T* x = nullptr;
  T* y = nullptr;
  OuterAxes<2> outer;  // operand 0: x, 1: y
  std::size_t rows = 1, columns = 1;
  std::size_t x_row = 0;     // stride between rows in x; columns are adjacent
  std::size_t y_column = 0;  // stride between columns in y; rows are adjacent
  std::size_t tile_rows = 1, tile_columns = 1;
  std::size_t tasks = 1, blocks = 1;  // a task is one tile of one matrix, or one piece of one run
};
using TransposeArgs = TransposeArgsOf<float>;
using ByteTransposeArgs = TransposeArgsOf<std::uint8_t>;

/// `pixels` and so on: for whole matrices that follow each other in both tensors, as the channels
/// of pixels do. A task is one matrix.
struct TransposeBodies {
  Body runs = nullptr;  // for rows == 1
  Body matrices = nullptr;
  Body interleave[3] = {};    // for 2, 3 and 4 rows, y_column == rows: planes to pixels
  Body deinterleave[3] = {};  // for 2, 3 and 4 columns, x_row == columns: pixels to planes
  Body pixels = nullptr;
  Body interleave_pixels[3] = {};
  Body deinterleave_pixels[3] = {};
};

struct ByteTransposeBodies {
  Body runs = nullptr;  // for rows == 1
  Body matrices = nullptr;
  Body interleave[3] = {};  // for 2, 3 and 4 rows, y_column == rows
  Body pixels = nullptr;
  Body interleave_pixels[3] = {};
};

}  // namespace lagoon
