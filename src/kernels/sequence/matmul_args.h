#pragma once

#include "kernels/sequence/matmul.h"
#include "kernels/strided.h"

namespace lagoon {

/// A task is one tile of y of one matrix of the batch.
struct MatmulArgs {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* y = nullptr;
  OuterAxes<2> batch;  // strides of a and b in elements
  std::size_t m = 1, k = 1, n = 1;
  std::size_t a_row = 1, a_k = 1, b_k = 1, b_column = 1;
  std::size_t row_tiles = 1, column_tiles = 1, tasks = 1, blocks = 1;
  float alpha = 1;
};

inline constexpr std::size_t kMatmulRows = 48;     // rows of a tile
inline constexpr std::size_t kMatmulColumns = 64;  // columns of a tile; a multiple of two vectors
inline constexpr std::size_t kMatmulDepth = 256;   // depth of a packed panel of b
/// Scratch: the tile's sums, then a panel of b.
inline constexpr std::size_t kMatmulScratch =
    (kMatmulRows * kMatmulColumns + kMatmulDepth * kMatmulColumns) * sizeof(float);

/// A tile of y.
struct MatmulTile {
  std::size_t batch, row, column, rows, columns;

  MatmulTile(const MatmulArgs& args, std::size_t task) {
    const std::size_t per_matrix = args.row_tiles * args.column_tiles;
    batch = task / per_matrix;
    row = task % per_matrix / args.column_tiles * kMatmulRows;
    column = task % args.column_tiles * kMatmulColumns;
    rows = args.m - row < kMatmulRows ? args.m - row : kMatmulRows;
    columns = args.n - column < kMatmulColumns ? args.n - column : kMatmulColumns;
  }
};

}  // namespace lagoon
