#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/direct_conv.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"
#include "kernels/window/window_ops.h"

#ifndef LAGOON_KERNELS_DIRECT_CONV_ARGS_
#define LAGOON_KERNELS_DIRECT_CONV_ARGS_
namespace lagoon {
namespace {

/// A task is one piece of a row of y along the last axis.
struct DirectConvArgs {
  const float* x = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;  // null: none
  float* y = nullptr;
  SpatialWindow window;
  std::size_t groups = 1, in_channels = 1, out_channels = 1;
  std::size_t pieces = 1, tasks = 1, blocks = 1;
};

constexpr std::size_t kMaxPiece = 512;

/// Multiplications and additions between two guard checks.
constexpr std::size_t kProductsPerCheck = 8192;

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

/// sum[i] += w * x[i * stride]
HWY_INLINE void AddScaled(float w, const float* x, size_t stride, size_t count, float* sum) {
  size_t i = 0;
  if (stride == 1) {
    const V factor = hn::Set(D(), w);
    for (; i + simd::Lanes() <= count; i += simd::Lanes()) {
      hn::StoreU(hn::MulAdd(factor, hn::LoadU(D(), x + i), hn::LoadU(D(), sum + i)), D(), sum + i);
    }
  }
  for (; i < count; ++i) sum[i] += w * x[i * stride];
}

/// The position along axis `a` of x under tap `tap` of the window at `out`. False: padding.
HWY_INLINE bool Source(const SpatialWindow& w, size_t a, size_t out, size_t tap, size_t& in) {
  in = out * w.stride[a] + tap * w.dilation[a] - w.pad_begin[a];  // wraps to a huge number below 0
  return in < w.in[a];
}

/// Adds a row of x, under tap `tap` of the last axis, to the sums of a piece of a row of y.
HWY_INLINE void AddTap(const SpatialWindow& w, const float* x, float factor, size_t tap,
                       const Range& piece, float* sum) {
  const size_t ahead = tap * w.dilation[2];
  const size_t stride = w.stride[2], pad = w.pad_begin[2];
  if (w.in[2] + pad <= ahead) return;
  const size_t first = ahead >= pad ? 0 : CeilDivide(pad - ahead, stride);
  const size_t begin = std::max(piece.begin, first);
  const size_t end = std::min(piece.end, CeilDivide(w.in[2] + pad - ahead, stride));
  if (begin >= end) return;
  AddScaled(factor, x + (begin * stride + ahead - pad), stride, end - begin,
            sum + (begin - piece.begin));
}

/// Checks the guards after a number of products. False: leave.
class Meter {
 public:
  explicit Meter(BlockContext* ctx) : ctx_(ctx) {}

  bool Spend(size_t products) {
    products_ += products;
    if (ctx_ == nullptr || products_ < kProductsPerCheck) return true;
    products_ = 0;
    return !ctx_->ShouldLeave();
  }

 private:
  BlockContext* ctx_;
  size_t products_ = 0;
};

/// Returns false if the block left.
HWY_INLINE bool Sums(const DirectConvArgs& args, size_t row, const Range& piece, float* sum,
                     BlockContext* ctx) {
  constexpr size_t kProductsPerTap = 16;  // cost of a tap in the padding
  const SpatialWindow& w = args.window;
  const size_t h = row % w.out[1], d = row / w.out[1] % w.out[0];
  const size_t channel = row / (w.out[0] * w.out[1]);  // counted over all images
  const size_t channels = args.groups * args.out_channels;
  const size_t image = channel / channels, out = channel % channels;
  const size_t x_plane = w.in[0] * w.in[1] * w.in[2];
  const size_t w_plane = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const float* x =
      args.x + (image * args.groups + out / args.out_channels) * args.in_channels * x_plane;
  const float* taps = args.w + out * args.in_channels * w_plane;
  std::fill(sum, sum + piece.size(), args.bias == nullptr ? 0.0f : args.bias[out]);
  Meter meter(ctx);
  for (size_t c = 0; c < args.in_channels; ++c, x += x_plane, taps += w_plane) {
    for (size_t tap = 0; tap < w.kernel[0] * w.kernel[1]; ++tap) {
      size_t in_d, in_h;
      if (!meter.Spend(kProductsPerTap)) return false;
      if (!Source(w, 0, d, tap / w.kernel[1], in_d)) continue;
      if (!Source(w, 1, h, tap % w.kernel[1], in_h)) continue;
      const float* const from = x + (in_d * w.in[1] + in_h) * w.in[2];
      for (size_t k = 0; k < w.kernel[2]; ++k) {
        AddTap(w, from, taps[tap * w.kernel[2] + k], k, piece, sum);
        if (!meter.Spend(kProductsPerTap + piece.size())) return false;
      }
    }
  }
  return true;
}

bool DirectConvBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const DirectConvArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const size_t width = args.window.out[2];
  auto* const sum = reinterpret_cast<float*>(ctx.scratch().data());
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const size_t row = task / args.pieces;
    const Range piece = Share(width, args.pieces, task % args.pieces);
    if (!Sums(args, row, piece, sum, may_leave)) return false;
    simd::Copy(sum, piece.size(), args.y + row * width + piece.begin);
  }
  return true;
}

}  // namespace

Body PickDirectConvBody() { return &DirectConvBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickDirectConvBody);

constexpr char kName[] = "direct_conv";

// Measured on a Xeon at 2 GHz, one thread.
constexpr double kNsPerProduct = 0.5;
constexpr double kNsPerTap = 4;
constexpr double kNsPerRow = 50;

}  // namespace

Result<Kernel> MakeDirectConv(const DirectConvSpec& spec) {
  const SpatialWindow& w = spec.window;
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "x",
                                       {{"batch", spec.batch},
                                        {"groups", spec.groups},
                                        {"in_channels", spec.in_channels},
                                        {"depth", w.in[0]},
                                        {"height", w.in[1]},
                                        {"width", w.in[2]}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "w",
                                       {{"groups", spec.groups},
                                        {"out_channels", spec.out_channels},
                                        {"in_channels", spec.in_channels},
                                        {"depth", w.kernel[0]},
                                        {"height", w.kernel[1]},
                                        {"width", w.kernel[2]}}));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t rows,
                          CheckElements(kName, "y",
                                        {{"batch", spec.batch},
                                         {"groups", spec.groups},
                                         {"out_channels", spec.out_channels},
                                         {"depth", w.out[0]},
                                         {"height", w.out[1]}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(kName, "y", {{"rows", rows}, {"width", w.out[2]}}));
  DirectConvArgs args;
  args.window = w;
  args.groups = spec.groups;
  args.in_channels = spec.in_channels;
  args.out_channels = spec.out_channels;
  args.pieces = CeilDivide(w.out[2], kMaxPiece);
  args.tasks = rows * args.pieces;
  const double products = static_cast<double>(rows * w.out[2]) *
                          static_cast<double>(spec.in_channels * w.kernel[0]) *
                          static_cast<double>(w.kernel[1] * w.kernel[2]);
  const double taps =
      static_cast<double>(args.tasks) * products / static_cast<double>(rows * w.out[2]);
  args.blocks = BlocksFor(
      kNsPerProduct * products + kNsPerTap * taps + kNsPerRow * static_cast<double>(args.tasks),
      args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickDirectConvBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = std::min(w.out[2], kMaxPiece) * sizeof(float);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(DirectConvArgs, x), offsetof(DirectConvArgs, w)};
  if (spec.bias) kernel.inputs.push_back(offsetof(DirectConvArgs, bias));
  kernel.outputs = {offsetof(DirectConvArgs, y)};
  kernel.flops = 2 * products;
  kernel.bytes_moved = sizeof(float) * static_cast<double>(rows * w.out[2]);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
