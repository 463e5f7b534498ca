#pragma once

// What the factory of transposition hands to its bodies.

#include <cstddef>

#include "device/block.h"
#include "kernels/strided.h"

namespace lagoon {

/// Axes that stay neighbours are joined. What remains is, below some outer axes, either runs of
/// `columns` elements that stay together, or matrices of `rows` x `columns` (as they lie in x) to
/// be flipped.
struct TransposeArgs {
  const float* x = nullptr;
  float* y = nullptr;
  OuterAxes<2> outer;  // operand 0: x, 1: y
  std::size_t rows = 1, columns = 1;
  std::size_t x_row = 0;     // from one row to the next in x; columns are next to each other
  std::size_t y_column = 0;  // from one column to the next in y; rows are next to each other
  std::size_t tile_rows = 1, tile_columns = 1;
  std::size_t tasks = 1, blocks = 1;  // a task is one tile of one matrix, or one piece of one run
};

struct TransposeBodies {
  Body runs = nullptr;  // rows == 1
  Body matrices = nullptr;
  Body interleave3 = nullptr;    // rows == 3, y_column == 3: planes of three to pixels
  Body deinterleave3 = nullptr;  // columns == 3, x_row == 3: pixels to planes of three
};

}  // namespace lagoon
