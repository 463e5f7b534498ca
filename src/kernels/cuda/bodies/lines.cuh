#pragma once

// Ops along an axis: softmax, normalisation of rows, reductions.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

LAGOON_DEVICE bool SoftmaxBody(const SoftmaxArgs& args, u32 tile, unsigned char* shared,
                               const BlockControl& control) {
  float* const sums = reinterpret_cast<float*>(shared);
  const LineArgs& at = args.line;
  const Line line(at, tile / args.pieces);
  const float* const x = args.x + line.start;
  float max = -Infinity(), sum = 0;
  bool leave = false;
  if (!control.SyncShouldStart()) return false;
  LAGOON_NO_UNROLL
  for (u32 pass = 0; pass < 2; ++pass) {
    LAGOON_NO_UNROLL
    for (u32 begin = 0; begin < at.axis; begin += at.chunk) {
      if (begin != 0 && control.SyncShouldLeave()) return false;
      if (!line.there) continue;
      const u32 end = Min(at.axis, begin + at.chunk);
      for (u32 i = begin + line.part; i < end; i += at.parts) {
        const float value = x[u64{i} * at.inner];
        if (pass == 0) {
          max = fmaxf(max, value);
        } else {
          sum += expf(value - max);
        }
      }
    }
    if (pass == 0) {
      max = CombineLine(at, line, Combine::kMax, max, sums);
    } else {
      leave = control.ShouldLeave();  // the sum hides how long that takes
      sum = CombineLine(at, line, Combine::kSum, sum, sums);
    }
  }
  if (__syncthreads_or(leave)) return false;
  if (!line.there) return true;
  const u32 begin = tile % args.pieces * at.chunk, end = Min(at.axis, begin + at.chunk);
  const float log_sum = args.log != 0 ? logf(sum) : 0, reciprocal = 1 / sum;
  for (u32 i = begin + line.part; i < end; i += at.parts) {
    const float value = x[u64{i} * at.inner] - max;
    args.y[line.start + u64{i} * at.inner] =
        args.log != 0 ? value - log_sum : expf(value) * reciprocal;
  }
  return true;
}

LAGOON_DEVICE bool NormalizeBody(const NormalizeArgs& args, u32 tile, unsigned char* shared,
                                 const BlockControl& control) {
  float* const sums = reinterpret_cast<float*>(shared);
  const LineArgs& at = args.line;
  const Line line(at, tile / args.pieces);
  const float* const x = args.x + line.start;
  const float size = static_cast<float>(at.axis);
  float mean = 0, variance = 0;
  bool leave = false;
  if (!control.SyncShouldStart()) return false;
  // The mean first: a variance as the sum of squares about the mean loses nothing to cancellation.
  LAGOON_NO_UNROLL
  for (u32 pass = args.center != 0 ? 0 : 1; pass < 2; ++pass) {
    float sum = 0;
    LAGOON_NO_UNROLL
    for (u32 begin = 0; begin < at.axis; begin += at.chunk) {
      if (begin != 0 && control.SyncShouldLeave()) return false;
      if (!line.there) continue;
      const u32 end = Min(at.axis, begin + at.chunk);
      for (u32 i = begin + line.part; i < end; i += at.parts) {
        const float value = x[i] - mean;
        sum += pass == 0 ? value : value * value;
      }
    }
    leave = control.ShouldLeave();  // the sum hides how long that takes
    const float all = CombineLine(at, line, Combine::kSum, sum, sums) / size;
    if (pass == 0) {
      mean = all;
    } else {
      variance = all;
    }
  }
  if (__syncthreads_or(leave)) return false;
  if (!line.there) return true;
  const float factor = 1 / sqrtf(variance + args.epsilon);
  const u32 begin = tile % args.pieces * at.chunk, end = Min(at.axis, begin + at.chunk);
  const u32 parameters = line.number % args.period * args.per_row;
  for (u32 i = begin + line.part; i < end; i += at.parts) {
    const u32 parameter = parameters + i / args.inner;
    float value = (x[i] - mean) * factor;
    if (args.scale != nullptr) value *= args.scale[parameter];
    if (args.bias != nullptr) value += args.bias[parameter];
    args.y[line.start + i] = value;
  }
  return true;
}

LAGOON_DEVICE bool ReduceBody(const ReduceArgs& args, u32 tile, unsigned char* shared,
                              const BlockControl& control) {
  const LineArgs& at = args.line;
  const Line line(at, tile);
  const auto how = static_cast<Combine>(args.combine);
  float value = how == Combine::kSum ? 0 : how == Combine::kMax ? -Infinity() : Infinity();
  if (!control.SyncShouldStart()) return false;
  LAGOON_NO_UNROLL
  for (u32 begin = 0; begin < at.axis; begin += at.chunk) {
    if (begin != 0 && control.SyncShouldLeave()) return false;
    if (!line.there) continue;
    const u32 end = Min(at.axis, begin + at.chunk);
    for (u32 i = begin + line.part; i < end; i += at.parts) {
      value = Combined(how, value, args.x[line.start + u64{i} * at.inner]);
    }
  }
  value = CombineLine(at, line, how, value, reinterpret_cast<float*>(shared));
  if (line.there && line.part == 0) args.y[line.number] = value * args.factor;
  return true;
}

}  // namespace lagoon::cuda
