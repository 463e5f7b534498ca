#pragma once

// Windows that slide over NHWC images, channel by channel: pooling and grouped convolution.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// The position of an output.
struct WindowOutput {
  const float* image = nullptr;
  i32 top = 0, left = 0;
  u32 channel = 0;

  WindowOutput() = default;
  LAGOON_DEVICE WindowOutput(const WindowWalk& walk, const float* x, u32 output) {
    const ImageWindow& window = walk.window;
    channel = output % walk.channels;
    const u32 pixel = output / walk.channels;
    const u32 out_column = pixel % window.out_width;
    const u32 out_row = pixel / window.out_width % window.out_height;
    const u64 batch = pixel / window.out_width / window.out_height;
    image = x + batch * window.height * window.width * walk.in_channels;
    top = static_cast<i32>(out_row * window.stride_h) - static_cast<i32>(window.pad_top);
    left = static_cast<i32>(out_column * window.stride_w) - static_cast<i32>(window.pad_left);
  }

  /// The output's channel of the pixel under a tap. `x` in the padding, where there is none: so
  /// loads need no branch, and those of several outputs are on their way together.
  LAGOON_DEVICE float Load(const WindowWalk& walk, const float* x, u32 r, u32 s,
                           bool& there) const {
    const float* const tap = Tap(walk, r, s);
    there = tap != nullptr;
    return *(there ? tap + channel : x);
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

/// Calls step.Add(places, count, r, s) for every tap: the thread has the outputs places[0] to
/// places[count - 1]. False: leave. `Step` is a struct because lambdas in device code need an
/// option of the compiler.
template <typename Step>
LAGOON_DEVICE bool WalkWindows(const WindowWalk& walk, const float* x, u32 tile,
                               const BlockControl& control, Step& step) {
  const u32 first = tile * kWindowTile + threadIdx.x;
  WindowOutput places[kWindowOutputs];
  u32 outputs = 0;
  LAGOON_UNROLL
  for (u32 o = 0; o < kWindowOutputs; ++o) {
    const u32 output = first + o * kBodyThreads;
    // Behind the last output, a place that can be read.
    places[o] = WindowOutput(walk, x, Min(output, walk.count - 1));
    outputs += output < walk.count ? 1 : 0;
  }
  u32 row = 0, column = 0;
  const u32 taps = walk.window.kernel_h * walk.window.kernel_w;
  if (!control.SyncShouldStart()) return false;
  LAGOON_NO_UNROLL
  for (u32 begin = 0; begin < taps; begin += walk.taps_per_check) {
    if (begin != 0 && control.SyncShouldLeave()) return false;
    const u32 count = Min(taps - begin, walk.taps_per_check);
    LAGOON_NO_UNROLL
    for (u32 i = 0; i < count; ++i) {
      step.Add(places, outputs, row, column);
      if (++column == walk.window.kernel_w) column = 0, ++row;
    }
  }
  return true;
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

  LAGOON_DEVICE void Add(const WindowOutput (&places)[kWindowOutputs], u32, u32 r, u32 s) {
    const auto kind = static_cast<Pool>(args.kind);
    float x[kWindowOutputs];
    bool there[kWindowOutputs];
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) {
      x[o] = places[o].Load(args.walk, args.x, r, s, there[o]);
    }
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) {
      const float with =
          Combined(kind == Pool::kMax ? Combine::kMax : Combine::kSum, values[o], x[o]);
      values[o] = there[o] ? with : values[o];
      counts[o] += kind == Pool::kAverageCountPadding ? InPadding(places[o], r, s) : there[o];
    }
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

  LAGOON_DEVICE void Add(const WindowOutput (&places)[kWindowOutputs], u32 outputs, u32 r, u32 s) {
    const u64 row = u64{r * args.walk.window.kernel_w + s} * args.group_inputs;
    const float* const weights = args.weights + row * args.walk.channels;
    if (args.walk.in_channels == args.walk.channels && args.group_inputs == 1) {
      AddDepthwise(places, weights, r, s);
      return;
    }
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) {
      if (o < outputs) AddGroup(o, places[o], weights, r, s);
    }
  }

 private:
  LAGOON_DEVICE void AddDepthwise(const WindowOutput (&places)[kWindowOutputs],
                                  const float* weights, u32 r, u32 s) {
    float x[kWindowOutputs], weight[kWindowOutputs];
    bool there[kWindowOutputs];
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) {
      x[o] = places[o].Load(args.walk, args.x, r, s, there[o]);
      weight[o] = weights[places[o].channel];
    }
    LAGOON_UNROLL
    for (u32 o = 0; o < kWindowOutputs; ++o) {
      sums[o] = there[o] ? sums[o] + x[o] * weight[o] : sums[o];
    }
  }

  LAGOON_DEVICE void AddGroup(u32 o, const WindowOutput& output, const float* weights, u32 r,
                              u32 s) {
    const float* const tap = output.Tap(args.walk, r, s);
    if (tap == nullptr) return;
    const float* const x = tap + output.channel / args.group_outputs * args.group_inputs;
    LAGOON_NO_UNROLL
    for (u32 c = 0; c < args.group_inputs; ++c) {
      sums[o] += x[c] * weights[u64{c} * args.walk.channels + output.channel];
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
