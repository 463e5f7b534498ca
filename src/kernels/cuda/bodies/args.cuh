#pragma once

// The arguments of the bodies, how they are cut into tiles, and the list of the bodies, shared by
// factories and bodies. Plain data, for host and device.

#include "device/cuda/gpu/types.cuh"
#include "kernels/image_window.h"

namespace lagoon::cuda {

using i64 = long long;

/// Threads per block, for all bodies.
inline constexpr u32 kBodyThreads = 256;

inline constexpr u32 kMaxAxes = 16;

/// Walks over a dense output with one offset per operand, in elements. Axes are outermost first.
template <u32 kOperands>
struct Axes {
  u32 rank;
  u32 dims[kMaxAxes];
  i64 strides[kOperands][kMaxAxes];
};

/// y = f(acc + bias + residual), or f(acc + bias) + residual.
struct EpilogueArgs {
  const float* bias;      // null: none
  const float* residual;  // null: none
  u32 residual_last;
  u32 unary;  // a UnaryOp
  float alpha, beta;
  float low, high;  // limits, infinite for none
};

enum class Combine : u32 { kSum, kMax, kMin };

/// Lines of [outer, axis, inner] along the axis. A block takes `columns` lines at once, each with
/// `parts` threads (columns * parts == kBodyThreads, parts is a power of two).
struct LineArgs {
  u32 axis, inner;
  u32 lines;  // outer * inner
  u32 columns, parts;
  u32 chunk;  // elements of the axis between two guard checks
};

// ---- Elementwise ops and moves of elements.

/// Outputs per block. A block takes less than 2 us, so that one guard check is enough; and small
/// tensors reach many multiprocessors.
inline constexpr u32 kElementTile = 1024;

struct UnaryArgs {
  const float* x;
  float* y;
  u32 count;
  u32 op;  // a UnaryOp
  float alpha, beta;
};

struct BinaryArgs {
  const float* a;
  const float* b;
  float* y;
  u32 count;
  u32 op;        // a BinaryOp
  Axes<2> axes;  // strides of a and b
  EpilogueArgs epilogue;
};

/// y[i] = x[start + offset of i]: computes transposes, slices and broadcasts.
struct StridedCopyArgs {
  const void* x;
  void* y;
  i64 start;
  u32 count;
  u32 element_bytes;  // 1, 2, 4, 8
  u32 finished;       // 1: applies the epilogue; fp32 only
  Axes<1> axes;
  EpilogueArgs epilogue;  // without bias and residual
};

inline constexpr u32 kFlipTile = 32;

/// Transposes matrices [rows, columns] of 4-byte elements, stored one behind the other, to
/// [columns, rows].
struct FlipArgs {
  const u32* x;
  u32* y;
  u32 rows, columns;
  u32 row_tiles, column_tiles;
};

/// Gathers runs of neighbouring elements at indices that are tensor data; see IndexSpec.
struct GatherArgs {
  const unsigned char* x;
  const void* indices;
  unsigned char* y;
  Axes<2> entries;  // operand 0: offset in the indices, 1: base in x
  u32 tuple;
  i64 sizes[kMaxAxes], strides[kMaxAxes];
  u32 run;            // elements per run
  u32 count;          // elements of y
  u32 element_bytes;  // 1, 2, 4, 8
  u32 wide;           // 1: indices of 64 bits, 0: of 32 bits
};

inline constexpr u32 kMaxConcatParts = 16;

/// Joins parts [outer, ends[i] - ends[i - 1], inner] along the axis.
struct ConcatArgs {
  const void* x[kMaxConcatParts];
  void* y;
  u32 ends[kMaxConcatParts];  // end of each part along the axis of y
  u32 parts, inner, count;
  u32 element_bytes;  // 1, 2, 4, 8
};

/// y[i, j, ...] = x[table[0][i] + table[1][j] + ...], in elements; `fill` if a table entry is
/// negative.
struct TakeArgs {
  const void* x;
  const i64* table;
  void* y;
  u32 rank;
  u32 dims[kMaxAxes];   // dims of y
  u32 begin[kMaxAxes];  // where each axis begins in the table
  u32 count;
  u32 element_bytes;  // 1, 2, 4, 8
  u64 fill;
};

inline constexpr u32 kMaxChannelParts = 64;

/// y[row][c] = f(x[row][c] * scale[c] + shift[c]), where x is the parts joined along c.
struct ChannelAffineArgs {
  const float* scale;
  const float* shift;
  const float* x[kMaxChannelParts];
  float* y;
  u32 ends[kMaxChannelParts];
  u32 parts, count;
  EpilogueArgs epilogue;
};

/// y = condition ? a : b
struct WhereArgs {
  const unsigned char* condition;
  const void* a;
  const void* b;
  void* y;
  u32 count;
  u32 element_bytes;
  Axes<3> axes;  // strides of condition, a and b
};

/// Element types, floats first.
enum class ElementType : u32 {
  kF32,
  kBf16,
  kF16,
  kF64,
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
};

/// Converts between any two types; floats are rounded to nearest, halves to even.
struct CastArgs {
  const void* x;
  void* y;
  u32 count;
  u32 from, to;  // ElementTypes
};

/// y has x's type, or bool.
struct TypedUnaryArgs {
  const void* x;
  void* y;
  u32 count;
  u32 op;    // a UnaryOp
  u32 type;  // an ElementType
  float alpha, beta;
};

/// y has the operands' type, or bool.
struct TypedBinaryArgs {
  const void* a;
  const void* b;
  void* y;
  u32 count;
  u32 op;        // a BinaryOp
  u32 type;      // an ElementType
  Axes<2> axes;  // strides of a and b
};

// ---- Ops along an axis.

/// Shared memory of these bodies, in bytes.
inline constexpr u32 kLineSharedBytes = kBodyThreads * sizeof(float);

/// A tile is some lines, or a piece of a long line. Each block of a long line computes for itself
/// what it needs of the whole line, so that the phase that writes stays short.
struct SoftmaxArgs {
  const float* x;
  float* y;
  LineArgs line;
  u32 pieces;  // pieces per line, each of line.chunk elements of the axis
  u32 log;
};

/// Rows of [rows, axis]; see NormalizeSpec.
struct NormalizeArgs {
  const float* x;
  const float* scale;  // null: none
  const float* bias;   // null: none
  float* y;
  LineArgs line;
  u32 pieces;
  u32 period, per_row, inner;  // which parameters an element uses, see NormalizeSpec
  float epsilon;
  u32 center;
};

struct ReduceArgs {
  const float* x;
  float* y;
  LineArgs line;
  u32 combine;   // a Combine
  float factor;  // multiplies the result
};

// ---- Windows.

/// Outputs that are computed channel by channel.
struct WindowWalk {
  ImageWindow window;
  u32 in_channels, channels;  // of x and y
  u32 count;                  // number of outputs
  u32 taps_per_check;         // taps between two guard checks
};

inline constexpr u32 kWindowOutputs = 4;  // outputs per thread
inline constexpr u32 kWindowTile = kBodyThreads * kWindowOutputs;
/// Numbers of x that an output reads between two guard checks. With 4 outputs per thread these are
/// 256 loads, below 10 us.
inline constexpr u32 kWindowLoadsPerCheck = 64;

enum class Pool : u32 { kMax, kAverage, kAverageCountPadding };

struct PoolArgs {
  const float* x;
  float* y;
  WindowWalk walk;
  u32 kind;  // a Pool
  u32 pad_bottom, pad_right;
};

/// Every group of output channels reads its own group of input channels. Depthwise convolution has
/// one channel per group.
struct GroupedConvArgs {
  const float* x;
  const float* weights;  // [kernel_h][kernel_w][group_inputs][channels]
  float* y;
  WindowWalk walk;
  EpilogueArgs epilogue;
  u32 group_inputs, group_outputs;  // channels per group
};

// ---- Products of matrices.

inline constexpr u32 kMatmulTile = 64;   // rows and columns per block
inline constexpr u32 kMatmulDepth = 16;  // depth of a step
inline constexpr u32 kMatmulPitch = kMatmulTile + 4;
inline constexpr u32 kMatmulSharedBytes = 2 * kMatmulDepth * kMatmulPitch * sizeof(float);
/// Steps between two guard checks: 2048 multiply-adds per thread, about 5 us.
inline constexpr u32 kMatmulStepsPerCheck = 8;

struct MatmulArgs {
  const float* a;
  const float* b;
  float* y;
  Axes<2> batch;  // strides of a and b
  u32 m, k, n;
  i64 a_row, a_k, b_k, b_column;
  u32 row_tiles, column_tiles;  // tiles per matrix
  float alpha;
};

// ---- Convolutions and products with weights, as one implicit product of matrices.

/// How products are computed. x and y are fp32 in memory, and so are sums.
enum class Math : u32 {
  kFp32,  // exactly rounded products, no tensor cores; weights are fp32 in memory
  kBf16,  // x is rounded to bf16 as it is read; weights are bf16 in memory
};

inline constexpr u32 kConvChunkBytes = 16;  // bytes of one asynchronous copy
inline constexpr u32 kConvStages = 4;       // stages in shared memory at once
/// Steps between two guard checks: below 10 us for every tile.
inline constexpr u32 kConvStepsPerCheck = 4;

/// How a block computes its tile: the depth of a step, and the number of groups of threads that
/// each have a part of that depth.
struct ConvTile {
  u32 rows, columns, depth, slices;
};

/// Chunks of a row of a stage's operand.
template <typename Element>
LAGOON_SHARED_CONSTEXPR u32 RowChunks(const ConvTile& tile) {
  return tile.depth * static_cast<u32>(sizeof(Element)) / kConvChunkBytes;
}

/// Pitch of a finished tile in shared memory, in floats. It avoids the banks of the rows above.
LAGOON_SHARED_CONSTEXPR u32 ConvSumPitch(u32 columns) { return columns + 8; }

LAGOON_SHARED_CONSTEXPR u32 ConvSharedBytes(const ConvTile& tile, u32 weight_bytes) {
  const u32 step = tile.depth * (tile.rows * 4 + tile.columns * weight_bytes);
  const u32 sums = tile.slices * tile.rows * ConvSumPitch(tile.columns) * 4;
  return kConvStages * step > sums ? kConvStages * step : sums;
}

inline constexpr ConvTile kTile128x128Fp32 = {128, 128, 16, 1};
inline constexpr ConvTile kTile64x64Fp32 = {64, 64, 32, 4};
inline constexpr ConvTile kTile32x32Fp32 = {32, 32, 64, 8};
inline constexpr ConvTile kTile128x128Bf16 = {128, 128, 32, 1};
inline constexpr ConvTile kTile64x64Bf16 = {64, 64, 64, 2};
inline constexpr ConvTile kTile32x32Bf16 = {32, 32, 128, 8};

/// A row is an output pixel of any image, a column is an output channel, and the depth runs over
/// kernel rows, kernel columns and input channels. x and y are NHWC; the weights are
/// [out_channels][weight_pitch] in the order of the depth, with zeros behind the depth; for bf16 in
/// the order that RoundedSums reads.
struct ConvArgs {
  const void* x;
  const void* weights;
  void* y;
  EpilogueArgs epilogue;
  ImageWindow window;
  u32 channels, out_channels;
  u32 pixels, depth;
  u32 weight_pitch;  // in elements; a multiple of a chunk
  u32 row_tiles, column_tiles;
  /// `splits`: parts of the depth; `steps`: steps per split. With splits y is
  /// [splits][pixels][channels].
  u32 splits, steps;
  u32 chunks;  // 1: the channels are whole chunks, so that x is read in chunks
};

/// y = sum of `splits` parts, with the epilogue.
struct SplitSumArgs {
  const float* parts;  // [splits][count]
  float* y;
  EpilogueArgs epilogue;
  u32 splits, count, channels;
};

// ---- Attention.

inline constexpr u32 kAttentionRows = 16;  // queries per block
inline constexpr u32 kAttentionKeys = 32;  // keys per step, after which guards are checked
inline constexpr u32 kAttentionWeightPitch = kAttentionKeys + 4;
inline constexpr u32 kMaxAttentionDepth = 128;  // limit for the depth of keys and of values

struct AttentionOperand {
  i64 batch, head, row, column;  // strides in elements; 0 broadcasts
};

/// See AttentionSpec.
struct AttentionArgs {
  const float* q;
  const float* k;
  const float* v;
  const float* mask;          // null: none
  const unsigned char* keep;  // null: none
  float* y;
  AttentionOperand q_view, k_view, v_view, y_view, mask_view, keep_view;
  u32 heads, rows, keys, depth, value_depth, sharing;
  u32 mask_batches;  // after so many of the batch the mask repeats
  u32 row_tiles;
  u32 pitch;  // of rows in shared memory, in floats: AttentionPitch()
  u32 kept;
  float scale, fill, floor;
};

/// Whole groups of four floats, an odd number of them: eight neighbouring rows are on different
/// banks.
LAGOON_SHARED_CONSTEXPR u32 AttentionPitch(u32 depth) { return ((depth + 3) / 4 | 1) * 4; }

LAGOON_SHARED_CONSTEXPR u32 AttentionSharedBytes(u32 pitch) {
  return ((kAttentionRows + 4 * kAttentionKeys) * pitch + kAttentionRows * kAttentionWeightPitch) *
         4;
}

// ---- Recurrent cells.

inline constexpr u32 kCellUnits = kBodyThreads / 32;  // hidden units per block: one per warp
inline constexpr u32 kCellStatesPerCheck = 2048;
inline constexpr u32 kMaxCellGates = 4;

/// One step of a cell; see CellSpec.
struct CellArgs {
  const float* x;
  const float* r;
  const float* h;
  const float* extra[2];
  float* out[2];
  u32 kind;  // a Cell
  u32 batch, hidden, gates;
};

/// In the order of CellKind.
enum class Cell : u32 { kLstm, kRnn, kGruGates, kGruState, kGruLinear };

// ---- The bodies, by the numbers that grid parameters contain.

// clang-format off
/// BODY(Name): the function NameBody, which takes NameArgs.
#define LAGOON_PLAIN_BODIES(BODY)                                           \
  BODY(Unary) BODY(Binary) BODY(StridedCopy) BODY(Flip) BODY(Gather)        \
  BODY(Softmax) BODY(Normalize) BODY(Reduce) BODY(Pool) BODY(GroupedConv)   \
  BODY(Matmul) BODY(SplitSum) BODY(Attention) BODY(Cell) BODY(Concat)       \
  BODY(Take) BODY(ChannelAffine) BODY(Where) BODY(Cast) BODY(TypedUnary)    \
  BODY(TypedBinary)
/// Convolutions and products, which take ConvArgs: rows and columns of a tile, and the arithmetic.
#define LAGOON_CONV_BODIES(BODY)                                            \
  BODY(Conv128x128Fp32) BODY(Conv64x64Fp32) BODY(Conv32x32Fp32)             \
  BODY(Conv128x128Bf16) BODY(Conv64x64Bf16) BODY(Conv32x32Bf16)
#define LAGOON_BODIES(BODY) LAGOON_PLAIN_BODIES(BODY) LAGOON_CONV_BODIES(BODY)

enum class BodyId : unsigned {
#define LAGOON_BODY_ID(name) k##name,
  LAGOON_BODIES(LAGOON_BODY_ID)
#undef LAGOON_BODY_ID
};
// clang-format on

}  // namespace lagoon::cuda
