#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sequence/integer_linear.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cstring>

#include "kernels/activation.h"
#include "kernels/conv/int8/byte_conv_args.h"
#include "kernels/sequence/integer_linear.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/simd/unroll.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_INTEGER_LINEAR_ARGS_
#define LAGOON_KERNELS_INTEGER_LINEAR_ARGS_
namespace lagoon {
namespace {

/// A task is one tile of y.
struct IntegerLinearArgs {
  const std::byte* x = nullptr;
  const std::byte* x_zero = nullptr;
  const std::byte* weights = nullptr;  // of 16 bits, or PackedByteConv with `unit`
  const float* x_scale = nullptr;
  const float* w_scale = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;         // may be null
  const float* finish_residual = nullptr;  // may be null
  float* y = nullptr;
  std::size_t rows = 1, depth = 1, columns = 1;
  std::size_t tile_rows = 1, column_tiles = 1, tasks = 1, blocks = 1;
  bool is_signed = false;
  Limits limits;
  Finish finish;
  const ByteUnit* unit = nullptr;  // null: weights of 16 bits
};

constexpr std::size_t kTileRows = 48;     // most rows of a tile
constexpr std::size_t kTileColumns = 64;  // columns of a tile; a multiple of every strip
constexpr std::size_t kChunk = 512;       // depth between two guard checks; even
/// Elements from row to row of a chunk of x. Not a power of two, which would put all rows into the
/// same few lines of the cache.
constexpr std::size_t kChunkStride = kChunk + 32;
/// Scratch: the sums of a tile, then a chunk of its rows of x as 16-bit integers or a ByteScratch.
constexpr std::size_t kIntegerScratch = kTileRows * kTileColumns * sizeof(std::int32_t) +
                                        kTileRows * kChunkStride * sizeof(std::int16_t);
constexpr std::size_t kByteChunkQuads = 1024;  // between two guard checks

/// What the products of bytes need beside the results of a tile.
struct ByteScratch {
  std::int32_t sums[kMaxByteRows * kBytePanel];
  std::int32_t bias[kTileColumns];  // by panel and place
  float scale[kTileColumns];
};
static_assert(kTileColumns % kBytePanel == 0);
static_assert(sizeof(ByteScratch) <= kTileRows * kChunkStride * sizeof(std::int16_t));

/// The rows and columns of y that a task computes.
struct LinearTile {
  std::size_t row, column, rows, columns;

  LinearTile(const IntegerLinearArgs& args, std::size_t task)
      : row(task / args.column_tiles * args.tile_rows),
        column(task % args.column_tiles * kTileColumns),
        rows(std::min(args.tile_rows, args.rows - row)),
        columns(std::min(kTileColumns, args.columns - column)) {}
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A pair is two neighbours along the depth. The sum of the two products of a pair is one
// instruction. Packed weights: [strip of columns][pair][column of the strip][2].

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL

using D16 = hn::ScalableTag<std::int16_t>;
using D32 = hn::ScalableTag<std::int32_t>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

#if HWY_TARGET == HWY_AVX2
constexpr size_t kMicroRows = 6;
#else
constexpr size_t kMicroRows = 12;
#endif

/// Columns that the micro-kernel computes at once: two vectors of sums.
constexpr size_t kStrip = hn::MaxLanes(D16());

/// Makes the compiler compute `sum` here. GCC 12 otherwise multiplies for all rows first, and then
/// has more products than registers.
HWY_INLINE void ComputeNow(V32& sum) {
#if defined(__GNUC__)
  __asm__ volatile("" : "+v"(sum.raw));
#endif
}

/// Adds the products of `pairs` pairs to the sums of kRows rows of one strip. Not inlined, because
/// inlined code would spill registers.
template <size_t kRows>
HWY_NOINLINE void Micro(const std::int16_t* x, const std::int16_t* w, size_t pairs,
                        std::int32_t* sums) {
  const D32 d;
  constexpr size_t kLanes = hn::MaxLanes(D32());
  V32 low[kRows], high[kRows];
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    low[r] = hn::LoadU(d, sums + r * kTileColumns);
    high[r] = hn::LoadU(d, sums + r * kTileColumns + kLanes);
  }
  V32 unused = hn::Zero(d);
  for (size_t p = 0; p < pairs; ++p) {
    const V16 w_low = hn::LoadU(D16(), w), w_high = hn::LoadU(D16(), w + kStrip);
    LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, x + r * kChunkStride, sizeof(pair));
      const V16 factor = hn::BitCast(D16(), hn::Set(d, pair));
      low[r] = hn::ReorderWidenMulAccumulate(d, factor, w_low, low[r], unused);
      ComputeNow(low[r]);
      high[r] = hn::ReorderWidenMulAccumulate(d, factor, w_high, high[r], unused);
      ComputeNow(high[r]);
    }
    x += 2;
    w += 2 * kStrip;
  }
  LAGOON_UNROLL for (size_t r = 0; r < kRows; ++r) {
    hn::StoreU(low[r], d, sums + r * kTileColumns);
    hn::StoreU(high[r], d, sums + r * kTileColumns + kLanes);
  }
}

/// Micro for `rows` <= kRows.
template <size_t kRows>
HWY_INLINE void MicroRows(size_t rows, const std::int16_t* x, const std::int16_t* w, size_t pairs,
                          std::int32_t* sums) {
  if constexpr (kRows > 0) {
    if (rows < kRows) return MicroRows<kRows - 1>(rows, x, w, pairs, sums);
    Micro<kRows>(x, w, pairs, sums);
  }
}

HWY_INLINE void MultiplyStrip(size_t rows, const std::int16_t* x, const std::int16_t* w,
                              size_t pairs, std::int32_t* sums) {
  for (size_t row = 0; row < rows; row += kMicroRows) {
    MicroRows<kMicroRows>(std::min(kMicroRows, rows - row), x + row * kChunkStride, w, pairs,
                          sums + row * kTileColumns);
  }
}

/// Writes x - zero, `count` elements, as 16-bit integers.
template <typename T>
HWY_INLINE void Center(const T* x, std::int16_t zero, size_t count, std::int16_t* to) {
  const D16 d;
  const hn::Rebind<T, D16> narrow;
  const V16 point = hn::Set(d, zero);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Sub(hn::PromoteTo(d, hn::LoadU(narrow, x + i)), point), d, to + i);
  }
  for (; i < count; ++i) to[i] = static_cast<std::int16_t>(x[i] - zero);
}

#else

constexpr size_t kStrip = 8;

HWY_INLINE void MultiplyStrip(size_t rows, const std::int16_t* x, const std::int16_t* w,
                              size_t pairs, std::int32_t* sums) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t p = 0; p < pairs; ++p) {
      const std::int16_t* const pair = x + row * kChunkStride + 2 * p;
      for (size_t j = 0; j < kStrip; ++j) {
        const std::int16_t* const by = w + (p * kStrip + j) * 2;
        auto sum = static_cast<std::uint32_t>(sums[row * kTileColumns + j]);
        sum += static_cast<std::uint32_t>(pair[0] * by[0] + pair[1] * by[1]);
        sums[row * kTileColumns + j] = static_cast<std::int32_t>(sum);
      }
    }
  }
}

template <typename T>
HWY_INLINE void Center(const T* x, std::int16_t zero, size_t count, std::int16_t* to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<std::int16_t>(x[i] - zero);
}

#endif

/// A chunk of the depth of a tile's rows, as 16-bit integers. An odd depth ends with a zero.
template <typename T>
HWY_INLINE void CenterRows(const IntegerLinearArgs& args, const LinearTile& tile, size_t begin,
                           size_t depth, std::int16_t* to) {
  const T* const point = reinterpret_cast<const T*>(args.x_zero);
  const auto zero = static_cast<std::int16_t>(point[0] - 0);  // through int
  const T* x = reinterpret_cast<const T*>(args.x) + tile.row * args.depth + begin;
  for (size_t row = 0; row < tile.rows; ++row, x += args.depth, to += kChunkStride) {
    Center(x, zero, depth, to);
    to[depth] = 0;
  }
}

/// A vector of sums as floats: of integers times `scale`, or of what is scaled already.
HWY_INLINE simd::V ScaledSums(const std::int32_t* sums, simd::V scale) {
  return hn::Mul(hn::ConvertTo(simd::D(), hn::LoadU(hn::RebindToSigned<simd::D>(), sums)), scale);
}
HWY_INLINE simd::V ScaledSums(const float* sums, simd::V) { return hn::LoadU(simd::D(), sums); }

/// Writes the sums of a tile as floats.
template <typename T>
HWY_INLINE void StoreTile(const IntegerLinearArgs& args, const LinearTile& tile, const T* sums) {
  using simd::D;
  using simd::V;
  const V low = hn::Set(D(), args.limits.low), high = hn::Set(D(), args.limits.high);
  const V x_scale = hn::Set(D(), *args.x_scale);
  for (size_t row = 0; row < tile.rows; ++row, sums += kTileColumns) {
    const size_t at = (tile.row + row) * args.columns + tile.column;
    const auto step = [&](const auto& io, size_t j) HWY_ATTR {
      const size_t column = tile.column + j;
      const V scale = hn::Mul(x_scale, io.Load(args.w_scale + column));
      V v = hn::Add(ScaledSums(sums + j, scale), io.Load(args.bias + column));
      if (args.residual != nullptr) v = hn::Add(v, io.Load(args.residual + at + j));
      io.Store(simd::Clamp(v, low, high), args.y + at + j);
    };
    size_t j = 0;
    for (; j + simd::Lanes() <= tile.columns; j += simd::Lanes()) step(simd::Whole(), j);
    if (j < tile.columns) step(simd::Part(tile.columns - j), j);
    if (args.finish.row == nullptr) continue;
    const float* const residual = args.finish_residual;
    args.finish(args.y + at, residual == nullptr ? nullptr : residual + at, tile.columns);
  }
}

/// Returns false if the block left; it has written nothing then.
HWY_INLINE bool LinearTask(const IntegerLinearArgs& args, const LinearTile& tile,
                           std::int32_t* sums, BlockContext* ctx) {
  auto* const x = reinterpret_cast<std::int16_t*>(sums + kTileRows * kTileColumns);
  const size_t padded = (args.depth + 1) / 2 * 2;
  std::fill(sums, sums + tile.rows * kTileColumns, 0);
  for (size_t begin = 0; begin < args.depth; begin += kChunk) {
    const size_t depth = std::min(kChunk, args.depth - begin);
    if (args.is_signed) {
      CenterRows<std::int8_t>(args, tile, begin, depth, x);
    } else {
      CenterRows<std::uint8_t>(args, tile, begin, depth, x);
    }
    for (size_t column = 0; column < tile.columns; column += kStrip) {
      if (ctx != nullptr && ctx->ShouldLeave()) return false;
      const size_t strip = (tile.column + column) / kStrip;
      const auto* const weights = reinterpret_cast<const std::int16_t*>(args.weights);
      MultiplyStrip(tile.rows, x, weights + (strip * padded + begin) * kStrip, (depth + 1) / 2,
                    sums + column);
    }
  }
  if (ctx != nullptr && ctx->ShouldLeave()) return false;
  StoreTile(args, tile, sums);
  return true;
}

/// Sets what the sums of the tile's columns become.
HWY_INLINE void SetColumns(const IntegerLinearArgs& args, const LinearTile& tile,
                           ByteScratch& scratch) {
  const PackedByteConv parts = PackedByteConv::OfMatrix(args.depth, args.columns);
  // Minus the sum of the weights of each column.
  const auto* const sums = reinterpret_cast<const std::int32_t*>(args.weights + parts.bias);
  const auto zero = std::to_integer<std::int32_t>(args.x_zero[0]);
  const std::size_t places = CeilDivide(tile.columns, kBytePanel) * kBytePanel;
  for (std::size_t i = 0; i < places; ++i) {
    const std::size_t column =
        tile.column + i / kBytePanel * kBytePanel + ByteColumn(i % kBytePanel);
    scratch.bias[i] = zero * sums[tile.column + i];
    scratch.scale[i] = column < args.columns ? *args.x_scale * args.w_scale[column] : 0;
  }
}

/// The products of some rows of the tile and one panel, scaled. False if the block left.
HWY_INLINE bool BytePanel(const IntegerLinearArgs& args, const LinearTile& tile, size_t row,
                          size_t first, EnteredByteUnit& unit, ByteScratch& scratch, float* y,
                          BlockContext* ctx) {
  const size_t quads = args.depth / kByteQuad;
  const std::uint8_t* pixels[kMaxByteRows];
  ByteTile product{};
  product.pixels = pixels;
  product.pitch = args.depth;
  const size_t rows = std::min(args.unit->rows, tile.rows - row);
  product.rows = rows;
  for (size_t r = 0; r < rows; ++r) {
    pixels[r] = reinterpret_cast<const std::uint8_t*>(args.x) + (tile.row + row + r) * args.depth;
  }
  const size_t panel = (tile.column + first) / kBytePanel;
  if (args.unit->even) {
    product.rows = std::min(rows, kByteHalf);
    product.lower = rows - product.rows;
    if (product.lower > 0) pixels[1] = pixels[kByteHalf];
  }
  product.taps = 1;
  product.bias = scratch.bias + first;
  product.sums = scratch.sums;
  product.wide =
      args.weights[PackedByteConv::OfMatrix(args.depth, args.columns).wide + panel] != std::byte{0};
  for (size_t quad = 0; quad < quads; quad += kByteChunkQuads) {
    if (ctx != nullptr && ctx->ShouldLeave()) return false;
    product.offset = quad * kByteQuad;
    product.quads = std::min(kByteChunkQuads, quads - quad);
    product.weights = reinterpret_cast<const std::int8_t*>(args.weights) +
                      (panel * quads + quad) * kByteQuadBytes;
    product.resume = quad > 0;
    unit.Multiply(product);
  }
  ByteStore store{};
  store.sums = scratch.sums;
  store.rows = rows;
  store.columns = std::min(kBytePanel, tile.columns - first);
  store.scale = scratch.scale + first;
  store.y = y + row * kTileColumns + first;
  store.pitch = kTileColumns;
  args.unit->store_floats(store);
  return true;
}

/// LinearTask with products of bytes.
HWY_INLINE bool ByteLinearTask(const IntegerLinearArgs& args, const LinearTile& tile, float* y,
                               BlockContext* ctx) {
  auto& scratch = *reinterpret_cast<ByteScratch*>(y + kTileRows * kTileColumns);
  SetColumns(args, tile, scratch);
  EnteredByteUnit unit(*args.unit);
  for (size_t row = 0; row < tile.rows; row += args.unit->rows) {
    for (size_t first = 0; first < tile.columns; first += kBytePanel) {
      if (!BytePanel(args, tile, row, first, unit, scratch, y, ctx)) return false;
    }
  }
  if (ctx != nullptr && ctx->ShouldLeave()) return false;
  StoreTile(args, tile, y);
  return true;
}

bool IntegerLinearBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const IntegerLinearArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  auto* const sums = reinterpret_cast<std::int32_t*>(ctx.scratch().data());
  // Only a block of one tile may leave in the middle: in other blocks, earlier tiles are written by
  // then.
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const LinearTile tile(args, task);
    const bool done = args.unit != nullptr
                          ? ByteLinearTask(args, tile, reinterpret_cast<float*>(sums), may_leave)
                          : LinearTask(args, tile, sums, may_leave);
    if (!done) return false;
  }
  return true;
}

}  // namespace

Body PickIntegerLinearBody() { return &IntegerLinearBody; }
size_t PickIntegerStrip() { return kStrip; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <vector>

#include "kernels/checks.h"
#include "kernels/conv/int8/byte_conv.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickIntegerLinearBody);
HWY_EXPORT(PickIntegerStrip);

constexpr char kName[] = "integer_linear";

// Measured on an EPYC with AVX2, one thread.
constexpr double kNsPerProduct = 0.016;
constexpr double kNsPerPlainProduct = 1.0;
constexpr double kNsPerByteResult = 0.4;  // besides its products
constexpr double kNsPerTile = 200;

std::size_t Strip() { return LAGOON_DISPATCH(PickIntegerStrip)(); }

void SetTiles(double finish_ns, IntegerLinearArgs& args) {
  const std::size_t row_tiles = CeilDivide(args.rows, kTileRows);
  args.tile_rows = CeilDivide(args.rows, row_tiles);
  args.column_tiles = CeilDivide(args.columns, kTileColumns);
  args.tasks = CeilDivide(args.rows, args.tile_rows) * args.column_tiles;
  const bool vectors = ActiveCpuLevel() != CpuLevel::kPortable;
  const double elements = static_cast<double>(args.rows) * static_cast<double>(args.columns);
  double ns_per_product = vectors ? kNsPerProduct : kNsPerPlainProduct;
  if (args.unit != nullptr) {
    ns_per_product = args.unit->quad_ns / static_cast<double>(args.unit->rows * kByteQuadBytes);
    finish_ns += kNsPerByteResult;
  }
  const double ns_per_element = static_cast<double>(args.depth) * ns_per_product + finish_ns;
  args.blocks = BlocksFor(elements * ns_per_element + kNsPerTile * static_cast<double>(args.tasks),
                          args.tasks);
}

Status Check(const IntegerLinearSpec& spec) {
  for (const auto& [tensor, rows, columns] : {std::tuple{"x", spec.rows, spec.depth},
                                              {"the weights", spec.depth, spec.columns},
                                              {"y", spec.rows, spec.columns}}) {
    LAGOON_RETURN_IF_ERROR(CheckElements(kName, tensor, {{"rows", rows}, {"columns", columns}}));
  }
  if (spec.byte_weights && !TakesByteWeights(spec)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: has no products of bytes for {} at depth {}", kName,
                            OipName(spec.x_type), spec.depth));
  }
  if (spec.x_type == DataType::kUInt8 || spec.x_type == DataType::kInt8) return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{}: not defined on {}", kName, OipName(spec.x_type)));
}

}  // namespace

Result<Kernel> MakeIntegerLinear(const IntegerLinearSpec& spec) {
  LAGOON_RETURN_IF_ERROR(Check(spec));
  IntegerLinearArgs args;
  args.rows = spec.rows;
  args.depth = spec.depth;
  args.columns = spec.columns;
  args.is_signed = spec.x_type == DataType::kInt8;
  LAGOON_ASSIGN_OR_RETURN(args.limits, LimitsOf(kName, spec.epilogue));
  LAGOON_ASSIGN_OR_RETURN(args.finish, FinishOf(kName, spec.epilogue));
  // The rows of x are read where they are, so only whole steps lie evenly.
  const bool whole_steps = spec.depth % (kByteTileQuads * kByteQuad) == 0;
  if (spec.byte_weights) args.unit = &PickByteUnit(ByteUnits(), spec.rows, whole_steps);

  SetTiles(FinishNs(spec.epilogue), args);
  using Args = IntegerLinearArgs;
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickIntegerLinearBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = kIntegerScratch;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(Args, x),       offsetof(Args, x_zero),  offsetof(Args, weights),
                   offsetof(Args, x_scale), offsetof(Args, w_scale), offsetof(Args, bias)};
  if (spec.epilogue.residual) {
    kernel.inputs.push_back(spec.epilogue.residual_last ? offsetof(Args, finish_residual)
                                                        : offsetof(Args, residual));
  }
  kernel.outputs = {offsetof(Args, y)};
  const auto rows = static_cast<double>(spec.rows), depth = static_cast<double>(spec.depth),
             columns = static_cast<double>(spec.columns);
  kernel.flops = 2 * rows * depth * columns;
  kernel.bytes_moved =
      rows * depth + 2 * depth * columns + (spec.epilogue.residual ? 8 : 4) * rows * columns;
  return kernel;
}

bool TakesByteWeights(const IntegerLinearSpec& spec) {
  const ByteProducts products = ProcessByteProducts();
  return (products.avx512 || products.avx) && spec.x_type == DataType::kUInt8 &&
         spec.depth % kByteQuad == 0 && spec.depth <= kMaxByteDepth;
}

std::size_t PackedIntegerByteWeightBytes(std::size_t depth, std::size_t columns) {
  return PackedByteConv::OfMatrix(depth, columns).size;
}

void PackIntegerByteWeights(std::size_t depth, std::size_t columns, const std::int8_t* weights,
                            std::byte* packed) {
  ByteConvSpec spec;
  spec.in_channels = static_cast<std::uint32_t>(depth);
  spec.out_channels = static_cast<std::uint32_t>(columns);
  spec.x_zero = 1;  // so that the bias becomes minus the sum of the weights
  const std::vector<std::int32_t> bias(columns, 0);
  const std::vector<float> scale(columns, 1.0F);
  PackByteConv(spec, {{weights, depth * columns}, bias, scale}, packed);
}

std::size_t PackedIntegerWeightBytes(std::size_t depth, std::size_t columns) {
  const std::size_t strip = Strip();
  return CeilDivide(columns, strip) * strip * CeilDivide(depth, 2) * 2 * sizeof(std::int16_t);
}

void PackIntegerWeights(std::size_t depth, std::size_t columns, const std::int16_t* weights,
                        void* packed) {
  const std::size_t strip = Strip();
  auto* to = static_cast<std::int16_t*>(packed);
  for (std::size_t first = 0; first < columns; first += strip) {
    for (std::size_t p = 0; p < depth; p += 2) {
      for (std::size_t j = first; j < first + strip; ++j) {
        const bool there = j < columns;
        *to++ = there ? weights[p * columns + j] : std::int16_t{0};
        *to++ = there && p + 1 < depth ? weights[(p + 1) * columns + j] : std::int16_t{0};
      }
    }
  }
}

}  // namespace lagoon
#endif  // HWY_ONCE
