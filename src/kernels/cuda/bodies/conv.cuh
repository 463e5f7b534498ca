#pragma once

// Convolution, and the product of a matrix with weights (a 1x1 convolution), as an implicit product
// of matrices. Asynchronous copies bring the operands into a ring of stages in shared memory. A
// tile of sums is kept in registers and is written through shared memory, so that the code has the
// epilogue only once.
//
// A small tile has too few sums for all threads of a block: each thread would read as many numbers
// as it multiplies. So the threads are cut into slices. Every slice has all sums of the tile, over
// its own part of each step's depth, and the sums of the slices are added at the end, in a fixed
// order.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// Offset of chunk `chunk` of a row in a stage's operand, whose rows have kChunks chunks. Eight
/// neighbouring rows, read at the same chunk, are on different banks.
template <u32 kChunks>
LAGOON_DEVICE u32 ConvSlot(u32 row, u32 chunk) {
  const u32 turn = kChunks == 4 ? row / 2 % 4 : row % 8;
  return (row * kChunks + (chunk ^ turn)) * kConvChunkBytes;
}

/// Sums by tensor cores. x is fp32 in memory, and is rounded to bf16 where a warp reads it; the
/// weights are bf16. The warps of a slice stand in kWarpRows rows.
template <ConvTile kTile, u32 kWarpRows>
class RoundedSums {
 public:
  using Weight = Bf16;
  static constexpr ConvTile kShape = kTile;

  LAGOON_DEVICE void Step(const unsigned char* rows, const unsigned char* columns) {
    LAGOON_UNROLL
    for (u32 i = 0; i < kTile.depth / kMmaDepth / kTile.slices; ++i) {
      const u32 k = i * kTile.slices + Slice();
      // Rows 8 apart have their chunks at the same places.
      const unsigned char* const b_at =
          columns + ConvSlot<kColumnChunks>(FirstColumn() + Lane() / 16 * 8 + Lane() % 8,
                                            k * 2 + Lane() / 8 % 2);
      const u32 row = FirstRow() + Lane() % 16;
      const unsigned char* const low_at = rows + ConvSlot<kRowChunks>(row, k * 4 + Lane() / 16);
      const unsigned char* const high_at =
          rows + ConvSlot<kRowChunks>(row, k * 4 + 2 + Lane() / 16);
      u32 b[kN][4];
      LAGOON_UNROLL
      for (u32 n = 0; n < kN; ++n) {
        LoadMatrices(b[n], b_at + n * 16 * kColumnChunks * kConvChunkBytes);
      }
      LAGOON_UNROLL
      for (u32 m = 0; m < kM; ++m) {
        // Matrices of four floats a row instead of eight halves: a thread gets floats t and 4 + t
        // of eight, where an operand has halves 2t and 2t + 1. PackCudaWeights() puts the weights
        // into that order.
        u32 low[4], high[4];
        LoadMatrices(low, low_at + m * 16 * kRowChunks * kConvChunkBytes);
        LoadMatrices(high, high_at + m * 16 * kRowChunks * kConvChunkBytes);
        const u32 a[4] = {Rounded(low[0], low[2]), Rounded(low[1], low[3]),
                          Rounded(high[0], high[2]), Rounded(high[1], high[3])};
        LAGOON_UNROLL
        for (u32 n = 0; n < kN; ++n) {
          Mma<Bf16>(sums_[m][2 * n], a, b[n][0], b[n][1]);
          Mma<Bf16>(sums_[m][2 * n + 1], a, b[n][2], b[n][3]);
        }
      }
    }
  }

  /// Calls put(slice, row, column, sum) for every sum of the thread.
  template <typename Put>
  LAGOON_DEVICE void ForEach(Put& put) const {
    LAGOON_UNROLL
    for (u32 m = 0; m < kM; ++m) {
      LAGOON_UNROLL
      for (u32 n = 0; n < 2 * kN; ++n) {
        LAGOON_UNROLL
        for (u32 i = 0; i < 4; ++i) {
          put(Slice(), FirstRow() + m * 16 + Lane() / 4 + i / 2 * 8,
              FirstColumn() + n * 8 + Lane() % 4 * 2 + i % 2, sums_[m][n][i]);
        }
      }
    }
  }

 private:
  static constexpr u32 kMmaDepth = 16;
  static constexpr u32 kRowChunks = RowChunks<float>(kTile);
  static constexpr u32 kColumnChunks = RowChunks<Weight>(kTile);
  static constexpr u32 kWarps = kBodyThreads / 32 / kTile.slices;  // of a slice
  static constexpr u32 kWarpColumns = kWarps / kWarpRows;
  static constexpr u32 kM = kTile.rows / kWarpRows / 16;  // groups of 16 rows per warp
  static constexpr u32 kN =
      kTile.columns / kWarpColumns / 16;  // groups of 16 columns, two products each
  static_assert(kM * kWarpRows * 16 == kTile.rows && kN * kWarpColumns * 16 == kTile.columns);
  static_assert(kTile.depth % (kMmaDepth * kTile.slices) == 0);

  static LAGOON_DEVICE u32 Lane() { return threadIdx.x % 32; }
  static LAGOON_DEVICE u32 Slice() { return threadIdx.x / 32 / kWarps; }
  static LAGOON_DEVICE u32 FirstRow() { return threadIdx.x / 32 % kWarps / kWarpColumns * kM * 16; }
  static LAGOON_DEVICE u32 FirstColumn() { return threadIdx.x / 32 % kWarpColumns * kN * 16; }
  static LAGOON_DEVICE u32 Rounded(u32 low, u32 high) {
    return PackHalves<Bf16>(__uint_as_float(low), __uint_as_float(high));
  }

  float sums_[kM][2 * kN][4] = {};
};

/// Sums in true fp32. A warp has 4 x 8 threads; a thread has every 4th row and every 8th column of
/// its warp's part of the tile.
template <ConvTile kTile, u32 kWarpRows>
class ExactSums {
 public:
  using Weight = float;
  static constexpr ConvTile kShape = kTile;

  LAGOON_DEVICE void Step(const unsigned char* rows, const unsigned char* columns) {
    LAGOON_UNROLL
    for (u32 i = 0; i < kChunks / kTile.slices; ++i) {
      const u32 chunk = i * kTile.slices + Slice();
      // Rows 8 apart have their chunks at the same places.
      constexpr u32 kEight = 8 * kChunks * kConvChunkBytes;
      const unsigned char* const a_at[2] = {rows + ConvSlot<kChunks>(Row(0), chunk),
                                            rows + ConvSlot<kChunks>(Row(1), chunk)};
      const unsigned char* const b_at = columns + ConvSlot<kChunks>(Column(0), chunk);
      LAGOON_UNROLL
      for (u32 half = 0; half < 2; ++half) {
        float2 a[kM];
        LAGOON_UNROLL
        for (u32 m = 0; m < kM; ++m) {
          a[m] = *reinterpret_cast<const float2*>(a_at[m % 2] + m / 2 * kEight + half * 8);
        }
        LAGOON_UNROLL
        for (u32 n = 0; n < kN; ++n) {
          const auto b = *reinterpret_cast<const float2*>(b_at + n * kEight + half * 8);
          LAGOON_UNROLL
          for (u32 m = 0; m < kM; ++m) sums_[m][n] += a[m].x * b.x;
          LAGOON_UNROLL
          for (u32 m = 0; m < kM; ++m) sums_[m][n] += a[m].y * b.y;
        }
      }
    }
  }

  template <typename Put>
  LAGOON_DEVICE void ForEach(Put& put) const {
    LAGOON_UNROLL
    for (u32 m = 0; m < kM; ++m) {
      LAGOON_UNROLL
      for (u32 n = 0; n < kN; ++n) put(Slice(), Row(m), Column(n), sums_[m][n]);
    }
  }

 private:
  static constexpr u32 kChunks = RowChunks<float>(kTile);
  static constexpr u32 kWarps = kBodyThreads / 32 / kTile.slices;  // of a slice
  static constexpr u32 kWarpColumns = kWarps / kWarpRows;
  static constexpr u32 kM = kTile.rows / kWarpRows / 4, kN = kTile.columns / kWarpColumns / 8;
  static_assert(kM * kWarpRows * 4 == kTile.rows && kN * kWarpColumns * 8 == kTile.columns);
  static_assert(kChunks % kTile.slices == 0);

  static LAGOON_DEVICE u32 Slice() { return threadIdx.x / 32 / kWarps; }
  static LAGOON_DEVICE u32 Row(u32 m) {
    return threadIdx.x / 32 % kWarps / kWarpColumns * kM * 4 + threadIdx.x % 32 / 8 + m * 4;
  }
  static LAGOON_DEVICE u32 Column(u32 n) {
    return threadIdx.x / 32 % kWarpColumns * kN * 8 + threadIdx.x % 8 + n * 8;
  }

  float sums_[kM][kN] = {};
};

/// Where the window of an output pixel begins, perhaps outside of the image.
struct ConvPlace {
  i32 top, left;
  u32 base;  // of the first tap's first channel, in elements of x; modulo 2^32
};

// A tap is `down` rows and `right` columns from the first one.

/// True if a tap of the window lies in the image.
LAGOON_DEVICE bool IsInside(const ImageWindow& window, i32 top, i32 left, u32 down, u32 right) {
  // Above and left of the image the unsigned numbers are huge.
  return static_cast<u32>(top) + down < window.height &&
         static_cast<u32>(left) + right < window.width;
}

/// From the first tap's first channel to this one's, in elements of x, modulo 2^32.
LAGOON_DEVICE u32 OffsetOf(const ConvArgs& args, u32 down, u32 right, u32 channel) {
  return (down * args.window.width + right) * args.channels + channel;
}

/// Copies a chunk whose elements do not lie beside each other: each has a tap, found by divisions.
/// Inlined, their constants would take registers from all other convolutions.
LAGOON_DEVICE_CALL void CopyChunk(const ConvArgs& args, u32 depth, ConvPlace place,
                                  unsigned char* slot) {
  const ImageWindow& window = args.window;
  const float* const x = static_cast<const float*>(args.x);
  LAGOON_NO_UNROLL
  for (u32 e = 0; e < kConvChunkBytes / sizeof(float); ++e, ++depth) {
    const u32 taps = depth / args.channels;
    const u32 down = taps / window.kernel_w * window.dilation_h;
    const u32 right = taps % window.kernel_w * window.dilation_w;
    const bool there = depth < args.depth && IsInside(window, place.top, place.left, down, right);
    const u32 at = place.base + OffsetOf(args, down, right, depth % args.channels);
    CopyAsync4(slot + e * sizeof(float), x + (there ? at : 0), there ? sizeof(float) : 0);
  }
}

/// From a thread's chunk in a stage to its next one: the stage's rows that lie between have a chunk
/// for each thread, and they are a multiple of 8.
inline constexpr u32 kConvChunksApart = kBodyThreads * kConvChunkBytes;

/// Copies a thread's chunks of x into a stage: one chunk of every kApart-th row. What does not
/// change from step to step is computed once: in a loop that multiplies for 256 cycles every
/// instruction counts. All offsets are modulo 2^32, and x has fewer elements.
template <ConvTile kTile>
class ConvPixels {
 public:
  /// `step`: the first one that will be loaded.
  LAGOON_DEVICE ConvPixels(const ConvArgs& args, u32 row0, u32 step)
      : args_(args),
        slot_(ConvSlot<kChunks>(threadIdx.x / kChunks, threadIdx.x % kChunks)),
        depth_(step * kTile.depth + threadIdx.x % kChunks * kElements) {
    const ImageWindow& window = args.window;
    const u32 taps = depth_ / args.channels;
    channel_ = depth_ % args.channels;
    down_ = taps / window.kernel_w * window.dilation_h;
    right_ = taps % window.kernel_w * window.dilation_w;
    offset_ = OffsetOf(args, down_, right_, channel_);
    LAGOON_UNROLL
    for (u32 i = 0; i < kShare; ++i) {
      const u32 pixel = row0 + threadIdx.x / kChunks + i * kApart;
      const u32 column = pixel % window.out_width;
      const u32 row = pixel / window.out_width % window.out_height;
      const u32 image = pixel / window.out_width / window.out_height;
      // Behind the last pixel every tap lies in the padding.
      const u32 top = row * window.stride_h - window.pad_top;
      const u32 left = column * window.stride_w - window.pad_left;
      top_[i] = pixel < args.pixels ? static_cast<i32>(top) : kOutside;
      left_[i] = static_cast<i32>(left);
      base_[i] = ((image * window.height + top) * window.width + left) * args.channels;
    }
  }

  /// Begins to copy the next step.
  LAGOON_DEVICE void Load(unsigned char* stage) {
    unsigned char* const slot = stage + slot_;
    if (args_.chunks == 0) {
      LAGOON_UNROLL
      for (u32 i = 0; i < kShare; ++i) {
        CopyChunk(args_, depth_, {top_[i], left_[i], base_[i]}, slot + i * kConvChunksApart);
      }
      depth_ += kTile.depth;
      return;
    }
    const ImageWindow& window = args_.window;
    const bool in_depth = depth_ < args_.depth;
    LAGOON_UNROLL
    for (u32 i = 0; i < kShare; ++i) {
      const bool there = in_depth && IsInside(window, top_[i], left_[i], down_, right_);
      CopyAsync16(slot + i * kConvChunksApart,
                  static_cast<const float*>(args_.x) + (there ? base_[i] + offset_ : 0),
                  there ? kConvChunkBytes : 0);
    }
    depth_ += kTile.depth;
    channel_ += kTile.depth;
    offset_ += kTile.depth;
    while (channel_ >= args_.channels) {
      channel_ -= args_.channels;
      right_ += window.dilation_w;
      if (right_ == window.kernel_w * window.dilation_w) {
        right_ = 0;
        down_ += window.dilation_h;
      }
      offset_ = OffsetOf(args_, down_, right_, channel_);
    }
  }

 private:
  static constexpr u32 kElements = kConvChunkBytes / sizeof(float);
  static constexpr u32 kChunks = RowChunks<float>(kTile);
  static constexpr u32 kApart = kBodyThreads / kChunks;
  static constexpr u32 kShare = kTile.rows / kApart;
  static constexpr i32 kOutside = -(1 << 30);
  static_assert(kShare * kApart == kTile.rows && kApart % 8 == 0);

  const ConvArgs& args_;
  const u32 slot_;
  // The thread's chunk of the next step: its place in the depth, which is a tap and a channel.
  u32 depth_, down_, right_, channel_, offset_;
  i32 top_[kShare], left_[kShare];
  u32 base_[kShare];  // where the first tap begins, perhaps outside of the image
};

/// Copies a thread's chunks of the weights into a stage, as ConvPixels does with x.
template <typename Weight, ConvTile kTile>
class ConvWeights {
 public:
  LAGOON_DEVICE ConvWeights(const ConvArgs& args, u32 column0, u32 step)
      : args_(args),
        slot_(ConvSlot<kChunks>(threadIdx.x / kChunks, threadIdx.x % kChunks)),
        column_(column0 + threadIdx.x / kChunks),
        depth_(step * kTile.depth + threadIdx.x % kChunks * kElements) {}

  /// Begins to copy the next step.
  LAGOON_DEVICE void Load(unsigned char* stage) {
    const bool in_depth = depth_ < args_.weight_pitch;
    LAGOON_UNROLL
    for (u32 i = 0; i < kShare; ++i) {
      const u32 column = column_ + i * kApart;
      const bool there = in_depth && column < args_.out_channels;
      const u32 at = there ? column * args_.weight_pitch + depth_ : 0;
      CopyAsync16(stage + slot_ + i * kConvChunksApart,
                  static_cast<const Weight*>(args_.weights) + at, there ? kConvChunkBytes : 0);
    }
    depth_ += kTile.depth;
  }

 private:
  static constexpr u32 kElements = kConvChunkBytes / sizeof(Weight);
  static constexpr u32 kChunks = RowChunks<Weight>(kTile);
  static constexpr u32 kApart = kBodyThreads / kChunks;
  static constexpr u32 kShare = kTile.columns / kApart;
  static_assert(kShare * kApart == kTile.columns && kApart % 8 == 0);

  const ConvArgs& args_;
  const u32 slot_, column_;
  u32 depth_;
};

/// Puts sums into shared memory, a tile for each slice.
template <ConvTile kTile>
struct PutSum {
  static constexpr u32 kPitch = ConvSumPitch(kTile.columns);
  static constexpr u32 kApart = kTile.rows * kPitch;  // from one slice to the next
  float* tile;

  LAGOON_DEVICE void operator()(u32 slice, u32 row, u32 column, float sum) {
    tile[slice * kApart + row * kPitch + column] = sum;
  }
};

/// Adds the sums of the slices, which lie in shared memory, and writes the tile to y.
template <ConvTile kTile>
LAGOON_DEVICE void WriteTile(const ConvArgs& args, u32 row0, u32 column0, u64 split,
                             const float* tile) {
  constexpr u32 kPitch = PutSum<kTile>::kPitch, kApart = PutSum<kTile>::kApart;
  float* const y = static_cast<float*>(args.y) + split * args.pixels * args.out_channels;
  if (args.out_channels % 4 == 0) {
    LAGOON_NO_UNROLL
    for (u32 i = threadIdx.x * 4; i < kTile.rows * kTile.columns; i += kBodyThreads * 4) {
      const u32 row = row0 + i / kTile.columns, column = column0 + i % kTile.columns;
      if (row >= args.pixels || column >= args.out_channels) continue;
      const u64 at = u64{row} * args.out_channels + column;
      const float* const sums = tile + i / kTile.columns * kPitch + i % kTile.columns;
      float4 sum = *reinterpret_cast<const float4*>(sums);
      LAGOON_UNROLL
      for (u32 slice = 1; slice < kTile.slices; ++slice) {
        const auto part = *reinterpret_cast<const float4*>(sums + slice * kApart);
        sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
      }
      *reinterpret_cast<float4*>(y + at) = FinishedFour(args.epilogue, sum, column, at);
    }
    return;
  }
  LAGOON_NO_UNROLL
  for (u32 i = threadIdx.x; i < kTile.rows * kTile.columns; i += kBodyThreads) {
    const u32 row = row0 + i / kTile.columns, column = column0 + i % kTile.columns;
    if (row >= args.pixels || column >= args.out_channels) continue;
    const u64 at = u64{row} * args.out_channels + column;
    const float* const sums = tile + i / kTile.columns * kPitch + i % kTile.columns;
    float sum = sums[0];
    LAGOON_UNROLL
    for (u32 slice = 1; slice < kTile.slices; ++slice) sum += sums[slice * kApart];
    y[at] = Finished(args.epilogue, sum, column, at);
  }
}

template <typename Sums>
LAGOON_DEVICE bool Conv(const ConvArgs& args, u32 tile, unsigned char* shared,
                        const BlockControl& control) {
  using Weight = typename Sums::Weight;
  constexpr ConvTile kTile = Sums::kShape;
  constexpr u32 kRowsBytes = kTile.rows * kTile.depth * sizeof(float);
  constexpr u32 kStageBytes = kRowsBytes + kTile.columns * kTile.depth * sizeof(Weight);
  const u32 per_split = args.row_tiles * args.column_tiles;
  const u32 split = tile / per_split;
  const u32 row0 = tile % per_split / args.column_tiles * kTile.rows;
  const u32 column0 = tile % args.column_tiles * kTile.columns;
  const u32 first = split * args.steps;
  ConvPixels<kTile> pixels(args, row0, first);
  ConvWeights<Weight, kTile> weights(args, column0, first);
  const auto load = [&](u32 step) {
    if (step < args.steps) {
      unsigned char* const stage = shared + step % kConvStages * kStageBytes;
      pixels.Load(stage);  // the calls come in the order of the steps
      weights.Load(stage + kRowsBytes);
    }
    CommitCopies();  // also for no copies, so that there is one group per step
  };
  Sums sums;
  LAGOON_UNROLL
  for (u32 step = 0; step < kConvStages - 1; ++step) load(step);
  LAGOON_NO_UNROLL
  for (u32 step = 0; step < args.steps; ++step) {
    const bool leave = step % kConvStepsPerCheck == 0 && control.ShouldLeave();
    WaitCopies<kConvStages - 2>();
    // After this barrier all threads see the step's operands, and the previous step's stage is
    // free. A barrier that also agrees takes longer: a third of a step on an H200.
    if (step % kConvStepsPerCheck != 0) {
      __syncthreads();
    } else if (__syncthreads_or(leave)) {
      WaitCopies<0>();
      return false;
    }
    load(step + kConvStages - 1);
    const unsigned char* const stage = shared + step % kConvStages * kStageBytes;
    sums.Step(stage, stage + kRowsBytes);
  }
  WaitCopies<0>();
  const bool leave = control.ShouldLeave();  // used behind the next barriers, which hide the wait
  __syncthreads();                           // the last stage is free
  PutSum<kTile> put{reinterpret_cast<float*>(shared)};
  sums.ForEach(put);
  if (__syncthreads_or(leave)) return false;
  WriteTile<kTile>(args, row0, column0, split, put.tile);
  return true;
}

LAGOON_DEVICE bool SplitSumBody(const SplitSumArgs& args, u32 tile, unsigned char* /*shared*/,
                                const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 end = Min(args.count, (tile + 1) * kElementTile);
  if (args.channels % 4 == 0) {
    LAGOON_NO_UNROLL
    for (u32 i = tile * kElementTile + threadIdx.x * 4; i < end; i += kBodyThreads * 4) {
      float4 sum = make_float4(0, 0, 0, 0);
      LAGOON_UNROLL_BY_4
      for (u32 split = 0; split < args.splits; ++split) {
        const auto part =
            *reinterpret_cast<const float4*>(args.parts + u64{split} * args.count + i);
        sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
      }
      *reinterpret_cast<float4*>(args.y + i) =
          FinishedFour(args.epilogue, sum, i % args.channels, i);
    }
    return true;
  }
  LAGOON_NO_UNROLL
  for (u32 i = tile * kElementTile + threadIdx.x; i < end; i += kBodyThreads) {
    float sum = 0;
    for (u32 split = 0; split < args.splits; ++split)
      sum += args.parts[u64{split} * args.count + i];
    args.y[i] = Finished(args.epilogue, sum, i % args.channels, i);
  }
  return true;
}

}  // namespace lagoon::cuda
