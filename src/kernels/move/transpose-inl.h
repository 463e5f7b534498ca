// The bodies of transposition, once per Highway target.

#if defined(LAGOON_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LAGOON_KERNELS_TRANSPOSE_INL_H_
#undef LAGOON_KERNELS_TRANSPOSE_INL_H_
#else
#define LAGOON_KERNELS_TRANSPOSE_INL_H_
#endif

#include <algorithm>

#include "kernels/move/transpose_args.h"
#include "kernels/simd/flip-inl.h"
#include "kernels/simd/flip_bytes-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

struct Interleave3 {
  static HWY_INLINE void Run(const FlipTile& t) {
    const size_t lanes = simd::Lanes();
    const float *x0 = t.x, *x1 = t.x + t.x_row, *x2 = t.x + 2 * t.x_row;
    size_t c = 0;
    for (; c + lanes <= t.columns; c += lanes) {
      hn::StoreInterleaved3(hn::LoadU(D(), x0 + c), hn::LoadU(D(), x1 + c), hn::LoadU(D(), x2 + c),
                            D(), t.y + 3 * c);
    }
    FlipPlain(t, {0, 3}, {c, t.columns});
  }
};

struct Deinterleave3 {
  static HWY_INLINE void Run(const FlipTile& t) {
    const size_t lanes = simd::Lanes();
    float *y0 = t.y, *y1 = t.y + t.y_column, *y2 = t.y + 2 * t.y_column;
    size_t r = 0;
    for (; r + lanes <= t.rows; r += lanes) {
      V a, b, c;
      hn::LoadInterleaved3(D(), t.x + 3 * r, a, b, c);
      hn::StoreU(a, D(), y0 + r);
      hn::StoreU(b, D(), y1 + r);
      hn::StoreU(c, D(), y2 + r);
    }
    FlipPlain(t, {r, t.rows}, {0, 3});
  }
};

struct CopyRun {
  static HWY_INLINE void Run(const FlipTile& t) { simd::Copy(t.x, t.columns, t.y); }
};

template <class Tile, class T = float>
bool TransposeBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const TransposeArgsOf<T>*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const size_t across = CeilDivide(args.columns, args.tile_columns);
  const size_t down = CeilDivide(args.rows, args.tile_rows);
  size_t column_tile = tasks.begin % across;
  size_t row_tile = tasks.begin / across % down;
  Walk<2> walk(args.outer, tasks.begin / across / down);
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const size_t row = row_tile * args.tile_rows, column = column_tile * args.tile_columns;
    FlipTileOf<T> tile;
    tile.x = args.x + walk.offset(0) + row * args.x_row + column;
    tile.y = args.y + walk.offset(1) + column * args.y_column + row;
    tile.rows = std::min(args.tile_rows, args.rows - row);
    tile.columns = std::min(args.tile_columns, args.columns - column);
    tile.x_row = args.x_row;
    tile.y_column = args.y_column;
    Tile::Run(tile);
    if (++column_tile < across) continue;
    column_tile = 0;
    if (++row_tile < down) continue;
    row_tile = 0;
    walk.Next();
  }
  return true;
}

template <class Tile>
bool BytePixelsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ByteTransposeArgs*>(raw);
  const Range pixels = Share(args.tasks, args.blocks, block);
  const size_t bytes = args.rows * args.columns;
  FlipTileOfBytes pixel;
  pixel.x = args.x + pixels.begin * bytes;
  pixel.y = args.y + pixels.begin * bytes;
  pixel.rows = args.rows;
  pixel.columns = args.columns;
  pixel.x_row = args.x_row;
  pixel.y_column = args.y_column;
  for (size_t i = pixels.begin; i < pixels.end; ++i) {
    Tile::Run(pixel);
    pixel.x += bytes;
    pixel.y += bytes;
  }
  return true;
}

template <class Tile>
constexpr Body kByteBody = &TransposeBody<Tile, std::uint8_t>;

}  // namespace

TransposeBodies PickTransposeBodies() {
  return {.runs = &TransposeBody<CopyRun>,
          .matrices = &TransposeBody<Flip>,
          .interleave3 = &TransposeBody<Interleave3>,
          .deinterleave3 = &TransposeBody<Deinterleave3>};
}

ByteTransposeBodies PickByteTransposeBodies() {
  return {.runs = kByteBody<CopyBytes>,
          .matrices = kByteBody<FlipBytes>,
          .interleave = {kByteBody<InterleaveBytes<2>>, kByteBody<InterleaveBytes<3>>,
                         kByteBody<InterleaveBytes<4>>},
          .pixels = &BytePixelsBody<FlipBytes>,
          .interleave_pixels = {&BytePixelsBody<InterleaveBytes<2>>,
                                &BytePixelsBody<InterleaveBytes<3>>,
                                &BytePixelsBody<InterleaveBytes<4>>}};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_TRANSPOSE_INL_H_
