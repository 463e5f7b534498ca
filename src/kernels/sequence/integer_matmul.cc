#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sequence/integer_matmul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/sequence/integer_matmul.h"
#include "kernels/sequence/matmul_args.h"
#include "kernels/simd/unroll.h"
#include "kernels/tiling.h"

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

// A pair is two neighbours along the depth. The sum of the two products of a pair is one
// instruction, which wraps around nowhere: 16-bit operands come from bytes.

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL

namespace hn = hwy::HWY_NAMESPACE;
using D16 = hn::ScalableTag<std::int16_t>;
using D32 = hn::ScalableTag<std::int32_t>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

#if HWY_TARGET == HWY_AVX2
// With more rows GCC 12 keeps sums in memory.
constexpr size_t kIntegerRows = 4;
#else
constexpr size_t kIntegerRows = 12;
#endif

/// Columns that the micro-kernel computes at once: two vectors of sums.
HWY_INLINE size_t Strip() { return hn::Lanes(D16()); }

/// The place of column `j` of a strip among its sums: interleaving works on 128 bits at a time.
HWY_INLINE size_t PlaceOf(size_t j) {
  const size_t in_block = j % 8;
  return j / 8 * 4 + (in_block < 4 ? in_block : hn::Lanes(D32()) + in_block - 4);
}

HWY_INLINE void Interleave(const std::int16_t* b, size_t step, bool single, V16& low, V16& high) {
  const V16 first = hn::LoadU(D16(), b);
  const V16 second = single ? hn::Zero(D16()) : hn::LoadU(D16(), b + step);
  low = hn::InterleaveLower(D16(), first, second);
  high = hn::InterleaveUpper(D16(), first, second);
}

/// A strip of b: rows of the matrix, or pairs that PackStrip has interleaved.
struct RightStrip {
  const std::int16_t* data;
  size_t step;  // elements from row to row
  bool packed;
};

/// Adds the products of the pair at `p` to two vectors of sums for each row.
template <size_t kRows, bool kPacked, bool kSingle>
HWY_INLINE void AddPair(const std::int16_t* a, size_t a_row, const RightStrip& b, size_t p,
                        V32 (&low)[kRows], V32 (&high)[kRows]) {
  const D32 d;
  V16 b_low, b_high;
  if constexpr (kPacked) {
    b_low = hn::LoadU(D16(), b.data + p * Strip());
    b_high = hn::LoadU(D16(), b.data + p * Strip() + Strip());
  } else {
    Interleave(b.data + p * b.step, b.step, kSingle, b_low, b_high);
  }
  V32 unused = hn::Zero(d);
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    const std::int16_t* const from = a + r * a_row + p;
    std::int32_t pair = kSingle ? static_cast<std::uint16_t>(*from) : 0;
    if constexpr (!kSingle) std::memcpy(&pair, from, sizeof(pair));
    const V16 factor = hn::BitCast(D16(), hn::Set(d, pair));
    low[r] = hn::ReorderWidenMulAccumulate(d, factor, b_low, low[r], unused);
    high[r] = hn::ReorderWidenMulAccumulate(d, factor, b_high, high[r], unused);
  }
}

template <size_t kRows, bool kPacked>
HWY_INLINE void IntegerMicro(const std::int16_t* a, size_t a_row, const RightStrip& b, size_t depth,
                             std::int32_t* sums) {
  const D32 d;
  const size_t lanes = hn::Lanes(d);
  V32 low[kRows], high[kRows];
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    low[r] = hn::LoadU(d, sums + r * kMatmulColumns);
    high[r] = hn::LoadU(d, sums + r * kMatmulColumns + lanes);
  }
  size_t p = 0;
  for (; p + 1 < depth; p += 2) AddPair<kRows, kPacked, false>(a, a_row, b, p, low, high);
  if (p < depth) AddPair<kRows, kPacked, true>(a, a_row, b, p, low, high);
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    hn::StoreU(low[r], d, sums + r * kMatmulColumns);
    hn::StoreU(high[r], d, sums + r * kMatmulColumns + lanes);
  }
}

/// IntegerMicro for `rows` <= kRows.
template <size_t kRows>
HWY_INLINE void IntegerRows(size_t rows, const std::int16_t* a, size_t a_row, const RightStrip& b,
                            size_t depth, std::int32_t* sums) {
  if constexpr (kRows > 0) {
    if (rows < kRows) return IntegerRows<kRows - 1>(rows, a, a_row, b, depth, sums);
    if (b.packed) return IntegerMicro<kRows, true>(a, a_row, b, depth, sums);
    IntegerMicro<kRows, false>(a, a_row, b, depth, sums);
  }
}

/// Interleaves `columns` columns of a strip; those behind them become zero.
HWY_INLINE void PackStrip(const std::int16_t* b, size_t step, size_t columns, size_t depth,
                          std::int16_t* packed) {
  HWY_ALIGN std::int16_t rows[2 * HWY_MAX_BYTES / sizeof(std::int16_t)] = {};
  for (size_t p = 0; p < depth; p += 2) {
    const bool single = p + 1 == depth;
    V16 low, high;
    if (columns == Strip()) {
      Interleave(b + p * step, step, single, low, high);
    } else {
      std::copy_n(b + p * step, columns, rows);
      if (!single) std::copy_n(b + (p + 1) * step, columns, rows + Strip());
      Interleave(rows, Strip(), single, low, high);
    }
    hn::StoreU(low, D16(), packed + p * Strip());
    hn::StoreU(high, D16(), packed + p * Strip() + Strip());
  }
}

/// Adds the products of `depth` values of p to the sums of one strip of `tile`.
HWY_INLINE void MultiplyStrip(const MatmulArgs& args, const std::int16_t* a, const std::int16_t* b,
                              size_t rows, size_t columns, size_t depth, std::int32_t* sums,
                              std::int16_t* packed) {
  RightStrip strip{b, args.b_k, false};
  // For few rows packing costs more than it saves.
  if (columns < Strip() || rows > kIntegerRows) {
    PackStrip(b, args.b_k, columns, depth, packed);
    strip = {packed, 2 * Strip(), true};
  }
  for (size_t row = 0; row < rows; row += kIntegerRows) {
    IntegerRows<kIntegerRows>(std::min(kIntegerRows, rows - row), a + row * args.a_row, args.a_row,
                              strip, depth, sums + row * kMatmulColumns);
  }
}

#else

HWY_INLINE size_t Strip() { return 8; }
HWY_INLINE size_t PlaceOf(size_t j) { return j; }

HWY_INLINE void MultiplyStrip(const MatmulArgs& args, const std::int16_t* a, const std::int16_t* b,
                              size_t rows, size_t columns, size_t depth, std::int32_t* sums,
                              std::int16_t* /*packed*/) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t p = 0; p < depth; ++p) {
      const std::uint32_t factor = static_cast<std::uint32_t>(a[row * args.a_row + p]);
      for (size_t j = 0; j < columns; ++j) {
        std::int32_t& sum = sums[row * kMatmulColumns + j];
        sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) +
                                        factor * static_cast<std::uint32_t>(b[p * args.b_k + j]));
      }
    }
  }
}

#endif

/// Writes the sums of a row of a tile in the order of its columns.
HWY_INLINE void StoreRow(const std::int32_t* sums, size_t columns, std::int32_t* y) {
  constexpr size_t kTogether = 4;  // so many columns stay neighbours, in every vector size
  size_t j = 0;
  for (; j + kTogether <= columns; j += kTogether) {
    std::memcpy(y + j, sums + j / Strip() * Strip() + PlaceOf(j % Strip()),
                kTogether * sizeof(std::int32_t));
  }
  for (; j < columns; ++j) y[j] = sums[j / Strip() * Strip() + PlaceOf(j % Strip())];
}

/// Returns false if the block left; it has written nothing then.
HWY_INLINE bool IntegerTile(const MatmulArgs& args, const MatmulTile& tile, std::int32_t* sums,
                            BlockContext* ctx) {
  const Walk<2> walk(args.batch, tile.batch);
  const auto* const a =
      reinterpret_cast<const std::int16_t*>(args.a) + walk.offset(0) + tile.row * args.a_row;
  const auto* const b =
      reinterpret_cast<const std::int16_t*>(args.b) + walk.offset(1) + tile.column;
  auto* const packed = reinterpret_cast<std::int16_t*>(sums + kMatmulRows * kMatmulColumns);
  std::fill(sums, sums + kMatmulRows * kMatmulColumns, 0);
  for (size_t p = 0; p < args.k; p += kMatmulDepth) {
    const size_t depth = std::min(kMatmulDepth, args.k - p);
    for (size_t column = 0; column < tile.columns; column += Strip()) {
      if (ctx != nullptr && ctx->ShouldLeave()) return false;
      MultiplyStrip(args, a + p, b + p * args.b_k + column, tile.rows,
                    std::min(Strip(), tile.columns - column), depth, sums + column, packed);
    }
  }
  if (ctx != nullptr && ctx->ShouldLeave()) return false;
  auto* const y = reinterpret_cast<std::int32_t*>(args.y) +
                  (tile.batch * args.m + tile.row) * args.n + tile.column;
  for (size_t row = 0; row < tile.rows; ++row) {
    StoreRow(sums + row * kMatmulColumns, tile.columns, y + row * args.n);
  }
  return true;
}

bool IntegerMatmulBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const MatmulArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  auto* const sums = reinterpret_cast<std::int32_t*>(ctx.scratch().data());
  // Only a block of one tile may leave in the middle: in other blocks, earlier tiles are written by
  // then.
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    if (!IntegerTile(args, MatmulTile(args, task), sums, may_leave)) return false;
  }
  return true;
}

}  // namespace

Body PickIntegerMatmulBody() { return &IntegerMatmulBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickIntegerMatmulBody);

}  // namespace

Body FindIntegerMatmulBody() { return LAGOON_DISPATCH(PickIntegerMatmulBody)(); }

}  // namespace lagoon
#endif  // HWY_ONCE
