#pragma once

// Products of two computed matrices in true fp32; operands may have any layout (MatmulSpec).

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// One operand's part of `kMatmulTile` lines and `kMatmulDepth` of the depth, which goes to shared
/// memory through registers.
class MatmulOperand {
 public:
  LAGOON_DEVICE MatmulOperand(const float* data, u32 lines, u32 depth, i64 line_stride,
                              i64 depth_stride)
      : data_(data),
        lines_(lines),
        depth_(depth),
        line_stride_(line_stride),
        depth_stride_(depth_stride),
        along_depth_(depth_stride == 1) {}

  LAGOON_DEVICE void Load(u32 depth) {
    LAGOON_UNROLL
    for (u32 i = 0; i < kLoads; ++i) {
      const u32 line = LineOf(i), d = depth + DepthOf(i);
      values_[i] = line < lines_ && d < depth_ ? data_[line * line_stride_ + d * depth_stride_] : 0;
    }
  }

  LAGOON_DEVICE void Store(float* shared) const {
    LAGOON_UNROLL
    for (u32 i = 0; i < kLoads; ++i) shared[DepthOf(i) * kMatmulPitch + LineOf(i)] = values_[i];
  }

 private:
  static constexpr u32 kLoads = kMatmulTile * kMatmulDepth / kBodyThreads;

  // Neighbouring threads load neighbouring elements.
  LAGOON_DEVICE u32 LineOf(u32 i) const {
    const u32 at = threadIdx.x + i * kBodyThreads;
    return along_depth_ ? at / kMatmulDepth : at % kMatmulTile;
  }
  LAGOON_DEVICE u32 DepthOf(u32 i) const {
    const u32 at = threadIdx.x + i * kBodyThreads;
    return along_depth_ ? at % kMatmulDepth : at / kMatmulTile;
  }

  const float* data_;
  u32 lines_, depth_;
  i64 line_stride_, depth_stride_;
  bool along_depth_;
  float values_[kLoads];
};

LAGOON_DEVICE void MultiplyStep(const float* a, const float* b, float (&sums)[4][4]) {
  const u32 row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  LAGOON_UNROLL
  for (u32 d = 0; d < kMatmulDepth; ++d) {
    const float4 left = *reinterpret_cast<const float4*>(a + d * kMatmulPitch + row);
    const float4 right = *reinterpret_cast<const float4*>(b + d * kMatmulPitch + column);
    const float x[4] = {left.x, left.y, left.z, left.w};
    const float w[4] = {right.x, right.y, right.z, right.w};
    LAGOON_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      LAGOON_UNROLL
      for (u32 j = 0; j < 4; ++j) sums[i][j] += x[i] * w[j];
    }
  }
}

LAGOON_DEVICE bool MatmulBody(const MatmulArgs& args, u32 tile, unsigned char* shared,
                              const BlockControl& control) {
  float* const a = reinterpret_cast<float*>(shared);
  float* const b = a + kMatmulDepth * kMatmulPitch;
  const u32 matrix = tile / (args.row_tiles * args.column_tiles);
  const u32 row0 = tile / args.column_tiles % args.row_tiles * kMatmulTile;
  const u32 column0 = tile % args.column_tiles * kMatmulTile;
  i64 offsets[2];
  OffsetsAt(args.batch, matrix, offsets);
  MatmulOperand left(args.a + offsets[0] + row0 * args.a_row, args.m - row0, args.k, args.a_row,
                     args.a_k);
  MatmulOperand right(args.b + offsets[1] + column0 * args.b_column, args.n - column0, args.k,
                      args.b_column, args.b_k);
  float sums[4][4] = {};
  left.Load(0);
  right.Load(0);
  LAGOON_NO_UNROLL
  for (u32 step = 0, depth = 0; depth < args.k; ++step, depth += kMatmulDepth) {
    // Read here and used at the barrier, so that the load overlaps with storing the operands.
    const bool leave = step % kMatmulStepsPerCheck == 0 && control.ShouldLeave();
    left.Store(a);
    right.Store(b);
    if (__syncthreads_or(leave)) return false;
    left.Load(depth + kMatmulDepth);
    right.Load(depth + kMatmulDepth);
    MultiplyStep(a, b, sums);
    __syncthreads();
  }
  if (control.SyncShouldLeave()) return false;
  const u32 row = row0 + threadIdx.x / 16 * 4, column = column0 + threadIdx.x % 16 * 4;
  LAGOON_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    if (row + i >= args.m) continue;
    float* const y = args.y + (u64{matrix} * args.m + row + i) * args.n;
    LAGOON_UNROLL
    for (u32 j = 0; j < 4; ++j) {
      if (column + j < args.n) y[column + j] = args.alpha * sums[i][j];
    }
  }
  return true;
}

}  // namespace lagoon::cuda
