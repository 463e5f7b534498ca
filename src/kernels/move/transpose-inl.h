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

/// Rows become neighbours: planes to pixels. The last vector may write again what the one before it
/// has written.
template <size_t kRows>
struct Interleave {
  static HWY_INLINE void Run(const FlipTile& t) {
    const size_t lanes = simd::Lanes();
    if (t.columns < lanes) return FlipPlain(t, {0, kRows}, {0, t.columns});
    for (size_t c = 0; c < t.columns; c += lanes) Store(t, std::min(c, t.columns - lanes));
  }

 private:
  static HWY_INLINE void Store(const FlipTile& t, size_t c) {
    const auto row = [&](size_t r) HWY_ATTR { return hn::LoadU(D(), t.x + r * t.x_row + c); };
    float* const y = t.y + kRows * c;
    if constexpr (kRows == 2) hn::StoreInterleaved2(row(0), row(1), D(), y);
    if constexpr (kRows == 3) hn::StoreInterleaved3(row(0), row(1), row(2), D(), y);
    if constexpr (kRows == 4) hn::StoreInterleaved4(row(0), row(1), row(2), row(3), D(), y);
  }
};

/// Neighbours become rows: pixels to planes.
template <size_t kColumns>
struct Deinterleave {
  static HWY_INLINE void Run(const FlipTile& t) {
    const size_t lanes = simd::Lanes();
    if (t.rows < lanes) return FlipPlain(t, {0, t.rows}, {0, kColumns});
    for (size_t r = 0; r < t.rows; r += lanes) Load(t, std::min(r, t.rows - lanes));
  }

 private:
  static HWY_INLINE void Load(const FlipTile& t, size_t r) {
    const float* const x = t.x + kColumns * r;
    V a, b, c, d;
    if constexpr (kColumns == 2) hn::LoadInterleaved2(D(), x, a, b);
    if constexpr (kColumns == 3) hn::LoadInterleaved3(D(), x, a, b, c);
    if constexpr (kColumns == 4) hn::LoadInterleaved4(D(), x, a, b, c, d);
    hn::StoreU(a, D(), t.y + r);
    hn::StoreU(b, D(), t.y + t.y_column + r);
    if constexpr (kColumns >= 3) hn::StoreU(c, D(), t.y + 2 * t.y_column + r);
    if constexpr (kColumns >= 4) hn::StoreU(d, D(), t.y + 3 * t.y_column + r);
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

template <class Tile, class T = float>
bool PixelsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const TransposeArgsOf<T>*>(raw);
  const Range pixels = Share(args.tasks, args.blocks, block);
  const size_t elements = args.rows * args.columns;
  FlipTileOf<T> pixel;
  pixel.x = args.x + pixels.begin * elements;
  pixel.y = args.y + pixels.begin * elements;
  pixel.rows = args.rows;
  pixel.columns = args.columns;
  pixel.x_row = args.x_row;
  pixel.y_column = args.y_column;
  for (size_t i = pixels.begin; i < pixels.end; ++i) {
    Tile::Run(pixel);
    pixel.x += elements;
    pixel.y += elements;
  }
  return true;
}

template <class Tile>
constexpr Body kByteBody = &TransposeBody<Tile, std::uint8_t>;
template <class Tile>
constexpr Body kBytePixels = &PixelsBody<Tile, std::uint8_t>;

}  // namespace

TransposeBodies PickTransposeBodies() {
  return {.runs = &TransposeBody<CopyRun>,
          .matrices = &TransposeBody<Flip>,
          .interleave = {&TransposeBody<Interleave<2>>, &TransposeBody<Interleave<3>>,
                         &TransposeBody<Interleave<4>>},
          .deinterleave = {&TransposeBody<Deinterleave<2>>, &TransposeBody<Deinterleave<3>>,
                           &TransposeBody<Deinterleave<4>>},
          .pixels = &PixelsBody<Flip>,
          .interleave_pixels = {&PixelsBody<Interleave<2>>, &PixelsBody<Interleave<3>>,
                                &PixelsBody<Interleave<4>>},
          .deinterleave_pixels = {&PixelsBody<Deinterleave<2>>, &PixelsBody<Deinterleave<3>>,
                                  &PixelsBody<Deinterleave<4>>}};
}

ByteTransposeBodies PickByteTransposeBodies() {
  return {.runs = kByteBody<CopyBytes>,
          .matrices = kByteBody<FlipBytes>,
          .interleave = {kByteBody<InterleaveBytes<2>>, kByteBody<InterleaveBytes<3>>,
                         kByteBody<InterleaveBytes<4>>},
          .pixels = kBytePixels<FlipBytes>,
          .interleave_pixels = {kBytePixels<InterleaveBytes<2>>, kBytePixels<InterleaveBytes<3>>,
                                kBytePixels<InterleaveBytes<4>>}};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#endif  // LAGOON_KERNELS_TRANSPOSE_INL_H_
