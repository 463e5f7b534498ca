#pragma once

// Shared by the bodies: positions in tensors, epilogues, sums over the threads of a block. Every
// body has the form
// bool NameBody(const NameArgs& args, u32 tile, unsigned char* shared, const BlockControl& control)
// and keeps the promises of docs/design/block-protocol.md (docs/design/cuda-bodies.md explains
// how).

#include "device/cuda/gpu/isa.cuh"
#include "device/cuda/gpu/protocol.cuh"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/bodies/functions.cuh"

namespace lagoon::cuda {

/// The offsets of every operand at position `index` in row-major order.
template <u32 kOperands>
LAGOON_DEVICE void OffsetsAt(const Axes<kOperands>& axes, u32 index, i64 (&offsets)[kOperands]) {
  LAGOON_UNROLL
  for (u32 operand = 0; operand < kOperands; ++operand) offsets[operand] = 0;
  LAGOON_NO_UNROLL
  for (u32 axis = axes.rank; axis-- > 0;) {
    const u32 at = index % axes.dims[axis];
    index /= axes.dims[axis];
    LAGOON_UNROLL
    for (u32 operand = 0; operand < kOperands; ++operand) {
      offsets[operand] += at * axes.strides[operand][axis];
    }
  }
}

LAGOON_DEVICE constexpr u32 DivideUp(u32 value, u32 by) { return (value + by - 1) / by; }

/// The epilogue of a sum that has its bias.
LAGOON_DEVICE float FinishedWith(const EpilogueArgs& args, float sum, float residual) {
  if (args.residual_last == 0) sum += residual;
  sum = functions::Limit(sum, args.low, args.high);
  sum = ApplyCommon(static_cast<UnaryOp>(args.unary), sum, args.alpha, args.beta);
  return args.residual_last != 0 ? sum + residual : sum;
}

LAGOON_DEVICE float Finished(const EpilogueArgs& args, float sum, u32 channel, u64 at) {
  if (args.bias != nullptr) sum += args.bias[channel];
  return FinishedWith(args, sum, args.residual != nullptr ? args.residual[at] : 0);
}

/// Finished() of four neighbours. `channel` and `at` are multiples of 4.
LAGOON_DEVICE float4 FinishedFour(const EpilogueArgs& args, float4 sum, u32 channel, u64 at) {
  float4 residual = make_float4(0, 0, 0, 0);
  if (args.residual != nullptr) residual = *reinterpret_cast<const float4*>(args.residual + at);
  if (args.bias != nullptr) {
    const float4 bias = *reinterpret_cast<const float4*>(args.bias + channel);
    sum = make_float4(sum.x + bias.x, sum.y + bias.y, sum.z + bias.z, sum.w + bias.w);
  }
  return make_float4(FinishedWith(args, sum.x, residual.x), FinishedWith(args, sum.y, residual.y),
                     FinishedWith(args, sum.z, residual.z), FinishedWith(args, sum.w, residual.w));
}

/// A NaN stays a NaN.
LAGOON_DEVICE float Combined(Combine how, float a, float b) {
  if (how == Combine::kSum) return a + b;
  return Arithmetic(how == Combine::kMax ? BinaryOp::kMax : BinaryOp::kMin, a, b);
}

/// A thread's share of its line.
struct Line {
  u64 start;   // index of the line's first element
  u32 number;  // number of the line
  u32 part;
  u32 slot;  // the thread's place in shared memory; the parts of a line are neighbours
  bool there;

  LAGOON_DEVICE Line(const LineArgs& args, u32 group) {
    // Neighbouring threads read neighbouring elements: along the axis, or across the lines.
    const bool along = args.inner == 1;
    const u32 column = along ? threadIdx.x / args.parts : threadIdx.x % args.columns;
    part = along ? threadIdx.x % args.parts : threadIdx.x / args.columns;
    slot = column * args.parts + part;
    number = group * args.columns + column;
    there = number < args.lines;
    start = there ? u64{number / args.inner} * args.axis * args.inner + number % args.inner : 0;
  }
};

/// Combines the values of a line's threads, in an order that does not depend on timing. Begins and
/// ends with a barrier. `shared`: kBodyThreads floats.
LAGOON_DEVICE float CombineLine(const LineArgs& args, const Line& line, Combine how, float value,
                                float* shared) {
  __syncthreads();
  shared[line.slot] = value;
  LAGOON_NO_UNROLL
  for (u32 step = args.parts / 2; step > 0; step /= 2) {
    __syncthreads();
    if (line.part < step) {
      shared[line.slot] = Combined(how, shared[line.slot], shared[line.slot + step]);
    }
  }
  __syncthreads();
  return shared[line.slot - line.part];
}

}  // namespace lagoon::cuda
