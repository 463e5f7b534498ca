#pragma once

// Windows that slide over NHWC images, channel by channel: pooling and grouped convolution.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// The position of an output.
struct WindowOutput {
  const float* image;
  i32 top, left;
  u32 out_row, out_column, channel;

  LAGOON_DEVICE WindowOutput(const WindowWalk& walk, const float* x, u32 output) {
    const ImageWindow& window = walk.window;
    channel = output % walk.channels;
    const u32 pixel = output / walk.channels;
    out_column = pixel % window.out_width;
    out_row = pixel / window.out_width % window.out_height;
    const u64 batch = pixel / window.out_width / window.out_height;
    image = x + batch * window.height * window.width * walk.in_channels;
    top = static_cast<i32>(out_row * window.stride_h) - static_cast<i32>(window.pad_top);
    left = static_cast<i32>(out_column * window.stride_w) - static_cast<i32>(window.pad_left);
  }

  /// The pixel under a tap; null in the padding.
  LAGOON_DEVICE const float* Tap(const WindowWalk& walk, u32 r, u32 s) const {
    const ImageWindow& window = walk.window;
    const i32 row = top + static_cast<i32>(r * window.dilation_h);
    const i32 column = left + static_cast<i32>(s * window.dilation_w);
    if (row < 0 || column < 0) return nullptr;
    const u32 h = static_cast<u32>(row), w = static_cast<u32>(column);
    if (h >= window.height || w >= window.width) return nullptr;
    return image + (u64{h} * window.width + w) * walk.in_channels;
  }
};

/// Calls step(o, output, r, s) for every tap of the thread's outputs o. False: leave. `Step` is a
/// struct because lambdas in device code need a compiler option.
template <typename Step>
LAGOON_DEVICE bool WalkWindows(const WindowWalk& walk, const float* x, u32 tile,
                               const BlockControl& control, Step& step) {
  u32 r = 0, s = 0;
  const ImageWindow& window = walk.window;
  const u32 taps = window.kernel_h * window.kernel_w;
  LAGOON_NO_UNROLL
  for (u32 begin = 0; begin < taps; begin += walk.taps_per_check) {
    if (control.SyncShouldLeave()) return false;
    const u32 count = Min(taps - begin, walk.taps_per_check);
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) {
      const u32 output = tile * kWindowTile + o * kBodyThreads + threadIdx.x;
      if (output >= walk.count) continue;
      const WindowOutput place(walk, x, output);
      u32 row = r, column = s;
      LAGOON_NO_UNROLL
      for (u32 i = 0; i < count; ++i) {
        step.Add(o, place, row, column);
        if (++column == window.kernel_w) column = 0, ++row;
      }
    }
    r = (begin + count) / window.kernel_w;
    s = (begin + count) % window.kernel_w;
  }
  return !control.SyncShouldLeave();
}

struct PoolStep {
  const PoolArgs& args;
  float values[kWindowOutputs];
  u32 counts[kWindowOutputs] = {};

  LAGOON_DEVICE explicit PoolStep(const PoolArgs& pool) : args(pool) {
    const bool max = static_cast<Pool>(args.kind) == Pool::kMax;
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) values[o] = max ? -Infinity() : 0;
  }

  LAGOON_DEVICE void Add(u32 o, const WindowOutput& output, u32 r, u32 s) {
    const float* const tap = output.Tap(args.walk, r, s);
    const auto kind = static_cast<Pool>(args.kind);
    if (tap != nullptr) {
      const float value = tap[output.channel];
      values[o] = Combined(kind == Pool::kMax ? Combine::kMax : Combine::kSum, values[o], value);
    }
    counts[o] += kind == Pool::kAverageCountPadding ? InPadding(output, r, s) : tap != nullptr;
  }

  /// True if the tap lies in the image or its padding.
  LAGOON_DEVICE bool InPadding(const WindowOutput& output, u32 r, u32 s) const {
    const ImageWindow& window = args.walk.window;
    const i32 row = output.top + static_cast<i32>(r * window.dilation_h);
    const i32 column = output.left + static_cast<i32>(s * window.dilation_w);
    return row < static_cast<i32>(window.height + args.pad_bottom) &&
           column < static_cast<i32>(window.width + args.pad_right);
  }
};

LAGOON_DEVICE bool PoolBody(const PoolArgs& args, u32 tile, unsigned char* /*shared*/,
                            const BlockControl& control) {
  PoolStep step(args);
  if (!WalkWindows(args.walk, args.x, tile, control, step)) return false;
  const bool average = static_cast<Pool>(args.kind) != Pool::kMax;
  LAGOON_UNROLL
  for (u32 o = 0; o < kWindowOutputs; ++o) {
    const u32 output = tile * kWindowTile + o * kBodyThreads + threadIdx.x;
    if (output >= args.walk.count) continue;
    args.y[output] = average ? step.values[o] / static_cast<float>(step.counts[o]) : step.values[o];
  }
  return true;
}

struct GroupedConvStep {
  const GroupedConvArgs& args;
  float sums[kWindowOutputs] = {};

  LAGOON_DEVICE explicit GroupedConvStep(const GroupedConvArgs& conv) : args(conv) {}

  LAGOON_DEVICE void Add(u32 o, const WindowOutput& output, u32 r, u32 s) {
    const float* const tap = output.Tap(args.walk, r, s);
    if (tap == nullptr) return;
    const float* const x = tap + output.channel / args.group_outputs * args.group_inputs;
    const u64 row = u64{r * args.walk.window.kernel_w + s} * args.group_inputs;
    const float* const weights = args.weights + row * args.walk.channels + output.channel;
    LAGOON_NO_UNROLL
    for (u32 c = 0; c < args.group_inputs; ++c) {
      sums[o] += x[c] * weights[u64{c} * args.walk.channels];
    }
  }
};

LAGOON_DEVICE bool GroupedConvBody(const GroupedConvArgs& args, u32 tile, unsigned char* /*shared*/,
                                   const BlockControl& control) {
  GroupedConvStep step(args);
  if (!WalkWindows(args.walk, args.x, tile, control, step)) return false;
  LAGOON_UNROLL
  for (u32 o = 0; o < kWindowOutputs; ++o) {
    const u32 output = tile * kWindowTile + o * kBodyThreads + threadIdx.x;
    if (output >= args.walk.count) continue;
    args.y[output] = Finished(args.epilogue, step.sums[o], output % args.walk.channels, output);
  }
  return true;
}

}  // namespace lagoon::cuda
