#pragma once

// Convolution, and the product of a matrix with weights (a 1x1 convolution), as an implicit product
// of matrices. Asynchronous copies bring the operands into a ring of stages in shared memory. A
// tile of sums is kept in registers and is written through shared memory, so that the code has the
// epilogue only once.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// Offset of chunk `chunk` of a row in a stage's operand. Eight neighbouring rows, read at the same
/// chunk, are on different banks.
LAGOON_DEVICE u32 ConvSlot(u32 row, u32 chunk) {
  return row * kConvRowBytes + (chunk ^ (row / 2 % 4)) * kConvChunkBytes;
}

/// Sums by tensor cores. A block has kWarpRows x kWarpColumns warps, each with a part of the tile.
/// `Number` is Bf16, F16 or, for tf32, float.
template <typename Number, u32 kRows, u32 kColumns, u32 kWarpRows>
class TensorSums {
 public:
  using Element = Number;

  LAGOON_DEVICE void Step(const unsigned char* rows, const unsigned char* columns) {
    LAGOON_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      u32 b[kN][4];
      LAGOON_UNROLL
      for (u32 n = 0; n < kN; ++n) {
        const u32 column = FirstColumn() + n * 16 + Lane() / 16 * 8 + Lane() % 8;
        LoadMatrices(b[n], columns + ConvSlot(column, half * 2 + Lane() / 8 % 2));
      }
      LAGOON_UNROLL
      for (u32 m = 0; m < kM; ++m) {
        u32 a[4];
        const u32 row = FirstRow() + m * 16 + Lane() / 8 % 2 * 8 + Lane() % 8;
        LoadMatrices(a, rows + ConvSlot(row, half * 2 + Lane() / 16));
        Multiply(m, a, b);
      }
    }
  }

  /// Calls put(row, column, sum) for every sum of the thread.
  template <typename Put>
  LAGOON_DEVICE void ForEach(Put& put) const {
    LAGOON_UNROLL
    for (u32 m = 0; m < kM; ++m) {
      LAGOON_UNROLL
      for (u32 n = 0; n < 2 * kN; ++n) {
        LAGOON_UNROLL
        for (u32 i = 0; i < 4; ++i) {
          put(FirstRow() + m * 16 + Lane() / 4 + i / 2 * 8,
              FirstColumn() + n * 8 + Lane() % 4 * 2 + i % 2, sums_[m][n][i]);
        }
      }
    }
  }

 private:
  static constexpr u32 kWarpColumns = kBodyThreads / 32 / kWarpRows;
  static constexpr u32 kM = kRows / kWarpRows / 16;  // groups of 16 rows per warp
  static constexpr u32 kN =
      kColumns / kWarpColumns / 16;  // groups of 16 columns, two products each
  static_assert(kM * kWarpRows * 16 == kRows && kN * kWarpColumns * 16 == kColumns);

  static LAGOON_DEVICE u32 Lane() { return threadIdx.x % 32; }
  static LAGOON_DEVICE u32 FirstRow() { return threadIdx.x / 32 / kWarpColumns * kM * 16; }
  static LAGOON_DEVICE u32 FirstColumn() { return threadIdx.x / 32 % kWarpColumns * kN * 16; }

  LAGOON_DEVICE void Multiply(u32 m, u32 (&a)[4], u32 (&b)[kN][4]) {
    LAGOON_UNROLL
    for (u32 n = 0; n < kN; ++n) {
      MultiplyAdd(sums_[m][2 * n], a, b[n][0], b[n][1], Number{});
      MultiplyAdd(sums_[m][2 * n + 1], a, b[n][2], b[n][3], Number{});
    }
  }

  template <typename Half>
  static LAGOON_DEVICE void MultiplyAdd(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, Half) {
    Mma<Half>(d, a, b0, b1);
  }
  static LAGOON_DEVICE void MultiplyAdd(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float) {
    const u32 rounded[4] = {Tf32(a[0]), Tf32(a[1]), Tf32(a[2]), Tf32(a[3])};
    MmaTf32(d, rounded, Tf32(b0), Tf32(b1));
  }
  static LAGOON_DEVICE u32 Tf32(u32 bits) { return ToTf32(__uint_as_float(bits)); }

  float sums_[kM][2 * kN][4] = {};
};

/// Sums in true fp32: a thread has every 16th row and column of a 64x64 tile.
class ExactSums {
 public:
  using Element = float;

  LAGOON_DEVICE void Step(const unsigned char* rows, const unsigned char* columns) {
    LAGOON_UNROLL
    for (u32 chunk = 0; chunk < 4; ++chunk) {
      float4 a[4];
      LAGOON_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        a[i] = *reinterpret_cast<const float4*>(rows + ConvSlot(Row(i), chunk));
      }
      LAGOON_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        const auto b = *reinterpret_cast<const float4*>(columns + ConvSlot(Column(j), chunk));
        LAGOON_UNROLL
        for (u32 i = 0; i < 4; ++i) {
          sums_[i][j] += a[i].x * b.x;
          sums_[i][j] += a[i].y * b.y;
          sums_[i][j] += a[i].z * b.z;
          sums_[i][j] += a[i].w * b.w;
        }
      }
    }
  }

  template <typename Put>
  LAGOON_DEVICE void ForEach(Put& put) const {
    LAGOON_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      LAGOON_UNROLL
      for (u32 j = 0; j < 4; ++j) put(Row(i), Column(j), sums_[i][j]);
    }
  }

 private:
  static LAGOON_DEVICE u32 Row(u32 i) { return threadIdx.x / 16 + i * 16; }
  static LAGOON_DEVICE u32 Column(u32 j) { return threadIdx.x % 16 + j * 16; }

  float sums_[4][4] = {};
};

/// Copies a thread's chunks of one operand into a stage: chunk threadIdx.x % 4 of every 64th row.
template <typename Element, u32 kRows>
class ConvPixels {
 public:
  /// `step`: the first one that will be loaded.
  LAGOON_DEVICE ConvPixels(const ConvArgs& args, u32 row0, u32 step)
      : args_(args), depth_((step * 4 + threadIdx.x % 4) * kElements) {
    const ImageWindow& window = args.window;
    const u32 taps = depth_ / args.channels;
    channel_ = depth_ % args.channels;
    tap_w_ = taps % window.kernel_w;
    tap_h_ = taps / window.kernel_w;
    LAGOON_UNROLL
    for (u32 i = 0; i < kShare; ++i) {
      const u32 pixel = row0 + threadIdx.x / 4 + i * 64;
      const u32 column = pixel % window.out_width;
      const u32 row = pixel / window.out_width % window.out_height;
      const u32 image = pixel / window.out_width / window.out_height;
      // Behind the last pixel every tap lies in the padding.
      top_[i] =
          pixel < args.pixels ? static_cast<i32>(row * window.stride_h - window.pad_top) : kOutside;
      left_[i] = static_cast<i32>(column * window.stride_w - window.pad_left);
      base_[i] = u64{image} * window.height * window.width * args.channels;
    }
  }

  /// Begins to copy the next step.
  LAGOON_DEVICE void Load(unsigned char* stage) {
    LAGOON_UNROLL
    for (u32 i = 0; i < kShare; ++i) {
      unsigned char* const slot = stage + ConvSlot(threadIdx.x / 4 + i * 64, threadIdx.x % 4);
      if (args_.chunks != 0) {
        const Element* const x = AtTap(i);
        CopyAsync16(slot, x == nullptr ? args_.x : x, x == nullptr ? 0 : kConvChunkBytes);
      } else {
        Element* const elements = reinterpret_cast<Element*>(slot);
        LAGOON_NO_UNROLL
        for (u32 e = 0; e < kElements; ++e) {
          const Element* const x = At(i, depth_ + e);
          elements[e] = x == nullptr ? Element{} : *x;
        }
      }
    }
    depth_ += 4 * kElements;
    channel_ += 4 * kElements;
    while (channel_ >= args_.channels) {
      channel_ -= args_.channels;
      if (++tap_w_ == args_.window.kernel_w) {
        tap_w_ = 0;
        ++tap_h_;
      }
    }
  }

 private:
  static constexpr u32 kElements = kConvChunkBytes / sizeof(Element);
  static constexpr u32 kShare = kRows / 64;
  static constexpr i32 kOutside = -(1 << 30);

  /// The chunk at depth_. Null for padding and behind the depth.
  LAGOON_DEVICE const Element* AtTap(u32 i) const {
    const ImageWindow& window = args_.window;
    const u32 h = static_cast<u32>(top_[i]) + tap_h_ * window.dilation_h;
    const u32 w = static_cast<u32>(left_[i]) + tap_w_ * window.dilation_w;
    // Above and left of the image the unsigned numbers are huge.
    if (depth_ >= args_.depth || h >= window.height || w >= window.width) return nullptr;
    return static_cast<const Element*>(args_.x) + base_[i] +
           (u64{h} * window.width + w) * args_.channels + channel_;
  }

  /// The same for any depth, with divisions.
  LAGOON_DEVICE const Element* At(u32 i, u32 depth) const {
    const ImageWindow& window = args_.window;
    const u32 row_depth = window.kernel_w * args_.channels;
    const u32 r = depth / row_depth, in_row = depth % row_depth;
    const u32 h = static_cast<u32>(top_[i]) + r * window.dilation_h;
    const u32 w = static_cast<u32>(left_[i]) + in_row / args_.channels * window.dilation_w;
    if (depth >= args_.depth || h >= window.height || w >= window.width) return nullptr;
    return static_cast<const Element*>(args_.x) + base_[i] +
           (u64{h} * window.width + w) * args_.channels + in_row % args_.channels;
  }

  const ConvArgs& args_;
  // The thread's chunk of the next step: its place in the depth, which is a tap and a channel.
  u32 depth_, tap_h_, tap_w_, channel_;
  i32 top_[kShare], left_[kShare];
  u64 base_[kShare];
};

template <typename Element, u32 kColumns>
LAGOON_DEVICE void LoadWeights(const ConvArgs& args, u32 column0, u32 step, unsigned char* stage) {
  constexpr u32 kElements = kConvChunkBytes / sizeof(Element);
  const u32 chunk = threadIdx.x % 4, depth = (step * 4 + chunk) * kElements;
  LAGOON_UNROLL
  for (u32 row = threadIdx.x / 4; row < kColumns; row += 64) {
    const u32 column = column0 + row;
    const bool there = column < args.out_channels && depth < args.weight_pitch;
    const Element* const weights = static_cast<const Element*>(args.weights);
    CopyAsync16(stage + ConvSlot(row, chunk),
                there ? weights + u64{column} * args.weight_pitch + depth : weights,
                there ? kConvChunkBytes : 0);
  }
}

template <u32 kColumns>
struct PutSum {
  static constexpr u32 kPitch = kColumns + 4;  // avoids the banks of the row above
  float* tile;

  LAGOON_DEVICE void operator()(u32 row, u32 column, float sum) {
    tile[row * kPitch + column] = sum;
  }
};

/// Writes a tile of sums from shared memory to y.
template <typename Element, u32 kRows, u32 kColumns>
LAGOON_DEVICE void WriteTile(const ConvArgs& args, u32 row0, u32 column0, u64 split,
                             const float* tile) {
  constexpr u32 kPitch = PutSum<kColumns>::kPitch;
  if (args.half_y == 0 && args.out_channels % 4 == 0) {
    float* const y = static_cast<float*>(args.y) + split * args.pixels * args.out_channels;
    LAGOON_NO_UNROLL
    for (u32 i = threadIdx.x * 4; i < kRows * kColumns; i += kBodyThreads * 4) {
      const u32 row = row0 + i / kColumns, column = column0 + i % kColumns;
      if (row >= args.pixels || column >= args.out_channels) continue;
      const u64 at = u64{row} * args.out_channels + column;
      const float4 sum =
          *reinterpret_cast<const float4*>(tile + i / kColumns * kPitch + i % kColumns);
      *reinterpret_cast<float4*>(y + at) = FinishedFour(args.epilogue, sum, column, at);
    }
    return;
  }
  LAGOON_NO_UNROLL
  for (u32 i = threadIdx.x; i < kRows * kColumns; i += kBodyThreads) {
    const u32 row = row0 + i / kColumns, column = column0 + i % kColumns;
    if (row >= args.pixels || column >= args.out_channels) continue;
    const u64 at = u64{row} * args.out_channels + column;
    const float sum = tile[i / kColumns * kPitch + i % kColumns];
    const float y = Finished(args.epilogue, sum, column, at);
    if (args.half_y != 0) {
      static_cast<Element*>(args.y)[at] = FromFloat<Element>(y);
    } else {
      static_cast<float*>(args.y)[split * args.pixels * args.out_channels + at] = y;
    }
  }
}

template <typename Sums, u32 kRows, u32 kColumns>
LAGOON_DEVICE bool Conv(const ConvArgs& args, u32 tile, unsigned char* shared,
                        const BlockControl& control) {
  using Element = typename Sums::Element;
  constexpr u32 kStageBytes = (kRows + kColumns) * kConvRowBytes;
  const u32 per_split = args.row_tiles * args.column_tiles;
  const u32 split = tile / per_split;
  const u32 row0 = tile % per_split / args.column_tiles * kRows;
  const u32 column0 = tile % args.column_tiles * kColumns;
  const u32 first = split * args.steps;
  ConvPixels<Element, kRows> pixels(args, row0, first);
  const auto load = [&](u32 step) {
    if (step < args.steps) {
      unsigned char* const stage = shared + step % kConvStages * kStageBytes;
      pixels.Load(stage);  // the calls come in the order of the steps
      LoadWeights<Element, kColumns>(args, column0, first + step, stage + kRows * kConvRowBytes);
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
    sums.Step(stage, stage + kRows * kConvRowBytes);
  }
  WaitCopies<0>();
  if (control.SyncShouldLeave()) return false;
  PutSum<kColumns> put{reinterpret_cast<float*>(shared)};
  sums.ForEach(put);
  __syncthreads();
  WriteTile<Element, kRows, kColumns>(args, row0, column0, split, put.tile);
  return true;
}

LAGOON_DEVICE bool SplitSumBody(const SplitSumArgs& args, u32 tile, unsigned char* /*shared*/,
                                const BlockControl& control) {
  if (control.SyncShouldLeave()) return false;
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
