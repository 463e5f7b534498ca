#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "kernels/checks.h"
#include "kernels/tiling.h"
#include "kernels/window/window_ops.h"

namespace lagoon {
namespace {

constexpr char kName[] = "window_pool";
constexpr double kNsPerTap = 2.5;
constexpr double kNsPerOutput = 20;

/// A task is one element of y.
struct WindowPoolArgs {
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::int64_t* indices = nullptr;  // null: not wanted
  SpatialWindow window;
  std::array<std::size_t, kSpatialAxes> pad_end{0, 0, 0};
  std::size_t outputs = 1, blocks = 1;
  int p = 2;
  bool column_major = false;
};

constexpr std::size_t kTapsPerCheck = 1024;

/// The taps of the window at output `out` of axis `a` that lie in x.
Range TapsInside(const SpatialWindow& w, std::size_t a, std::size_t out) {
  const std::size_t first = out * w.stride[a], pad = w.pad_begin[a];
  if (first >= w.in[a] + pad) return {};
  const std::size_t begin = first >= pad ? 0 : CeilDivide(pad - first, w.dilation[a]);
  const std::size_t end = CeilDivide(w.in[a] + pad - first, w.dilation[a]);
  return {begin, std::max(begin, std::min(end, w.kernel[a]))};
}

/// The taps of the window at output `out` of axis `a` that lie in x or its padding.
std::size_t TapsCounted(const WindowPoolArgs& args, std::size_t a, std::size_t out) {
  SpatialWindow padded = args.window;
  padded.in[a] += padded.pad_begin[a] + args.pad_end[a];
  padded.pad_begin[a] = 0;
  return TapsInside(padded, a, out).size();
}

/// Calls visit(element of the image) for each tap of output `at` that lies in x. If `ctx` is not
/// null, checks the guards between taps. False: the block left.
template <typename Visit>
bool ForTaps(const SpatialWindow& w, std::size_t at, BlockContext* ctx, Visit&& visit) {
  const std::size_t out[] = {at / (w.out[1] * w.out[2]), at / w.out[2] % w.out[1], at % w.out[2]};
  Range taps[kSpatialAxes];
  for (std::size_t a = 0; a < kSpatialAxes; ++a) taps[a] = TapsInside(w, a, out[a]);
  const auto source = [&](std::size_t axis, std::size_t tap) {
    return out[axis] * w.stride[axis] + tap * w.dilation[axis] - w.pad_begin[axis];
  };
  std::size_t since_check = 0;
  for (std::size_t d = taps[0].begin; d < taps[0].end; ++d) {
    for (std::size_t h = taps[1].begin; h < taps[1].end; ++h) {
      const std::size_t row = (source(0, d) * w.in[1] + source(1, h)) * w.in[2];
      for (std::size_t k = taps[2].begin; k < taps[2].end; ++k) {
        visit(row + source(2, k));
        if (ctx == nullptr || ++since_check < kTapsPerCheck) continue;
        since_check = 0;
        if (ctx->ShouldLeave()) return false;
      }
    }
  }
  return true;
}

/// The same place, counted with the first spatial axis as the fastest one.
std::size_t ColumnMajor(const SpatialWindow& w, std::size_t place) {
  const std::size_t k = place % w.in[2], h = place / w.in[2] % w.in[1],
                    d = place / (w.in[1] * w.in[2]);
  return (k * w.in[1] + h) * w.in[0] + d;
}

template <typename T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

/// A NaN is the greatest element.
template <typename T>
bool MaxAt(const WindowPoolArgs& args, std::size_t output, BlockContext* ctx) {
  const SpatialWindow& w = args.window;
  const std::size_t per_image = w.out[0] * w.out[1] * w.out[2];
  const std::size_t size = w.in[0] * w.in[1] * w.in[2];
  const std::size_t image = output / per_image;
  const T* const x = reinterpret_cast<const T*>(args.x) + image * size;
  T best = std::numeric_limits<T>::lowest();
  std::size_t place = 0;
  bool first = true;
  const bool stayed = ForTaps(w, output % per_image, ctx, [&](std::size_t at) {
    if (!first && !(x[at] > best || IsNan(x[at]))) return;
    best = x[at];
    place = at;
    first = false;
  });
  if (!stayed) return false;
  reinterpret_cast<T*>(args.y)[output] = best;
  if (args.indices == nullptr) return true;
  if (args.column_major) place = ColumnMajor(w, place);
  args.indices[output] = static_cast<std::int64_t>(image * size + place);
  return true;
}

template <WindowPool kKind>
bool SumAt(const WindowPoolArgs& args, std::size_t output, BlockContext* ctx) {
  const SpatialWindow& w = args.window;
  const std::size_t per_image = w.out[0] * w.out[1] * w.out[2];
  const float* const x =
      reinterpret_cast<const float*>(args.x) + output / per_image * w.in[0] * w.in[1] * w.in[2];
  float sum = 0;
  std::size_t count = 0;
  const auto power = static_cast<float>(args.p);
  const bool stayed = ForTaps(w, output % per_image, ctx, [&](std::size_t at) {
    ++count;
    if constexpr (kKind != WindowPool::kLp) {
      sum += x[at];
    } else {
      sum += args.p == 2 ? x[at] * x[at] : std::pow(std::abs(x[at]), power);
    }
  });
  if (!stayed) return false;
  if constexpr (kKind == WindowPool::kAverageCountPadding) {
    const std::size_t at = output % per_image;
    count = TapsCounted(args, 0, at / (w.out[1] * w.out[2])) *
            TapsCounted(args, 1, at / w.out[2] % w.out[1]) * TapsCounted(args, 2, at % w.out[2]);
  }
  float* const y = reinterpret_cast<float*>(args.y) + output;
  if constexpr (kKind == WindowPool::kLp) {
    *y = args.p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / power);
  } else {
    *y = sum / static_cast<float>(std::max<std::size_t>(count, 1));
  }
  return true;
}

template <bool (*kAt)(const WindowPoolArgs&, std::size_t, BlockContext*)>
bool PoolBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const WindowPoolArgs*>(raw);
  const Range outputs = Share(args.outputs, args.blocks, block);
  // Only a block of one output has written nothing while it reads.
  BlockContext* const may_leave = outputs.size() == 1 ? &ctx : nullptr;
  for (std::size_t i = outputs.begin; i < outputs.end; ++i) {
    if (!kAt(args, i, may_leave)) return false;
  }
  return true;
}

Body FindBody(const WindowPoolSpec& spec) {
  switch (spec.kind) {
    case WindowPool::kAverage:
      return &PoolBody<&SumAt<WindowPool::kAverage>>;
    case WindowPool::kAverageCountPadding:
      return &PoolBody<&SumAt<WindowPool::kAverageCountPadding>>;
    case WindowPool::kLp:
      return &PoolBody<&SumAt<WindowPool::kLp>>;
    case WindowPool::kMax:
      break;
  }
  if (spec.type == DataType::kInt8) return &PoolBody<&MaxAt<std::int8_t>>;
  if (spec.type == DataType::kUInt8) return &PoolBody<&MaxAt<std::uint8_t>>;
  return &PoolBody<&MaxAt<float>>;
}

}  // namespace

Result<Kernel> MakeWindowPool(const WindowPoolSpec& spec) {
  const SpatialWindow& w = spec.window;
  LAGOON_RETURN_IF_ERROR(CheckElements(
      kName, "x",
      {{"images", spec.images}, {"depth", w.in[0]}, {"height", w.in[1]}, {"width", w.in[2]}}));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t outputs, CheckElements(kName, "y",
                                                                   {{"images", spec.images},
                                                                    {"depth", w.out[0]},
                                                                    {"height", w.out[1]},
                                                                    {"width", w.out[2]}}));
  LAGOON_RETURN_IF_ERROR(
      CheckElements(kName, "the window",
                    {{"depth", w.kernel[0]}, {"height", w.kernel[1]}, {"width", w.kernel[2]}}));
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"stride", w.stride[0]},
                                               {"stride", w.stride[1]},
                                               {"stride", w.stride[2]},
                                               {"dilation", w.dilation[0]},
                                               {"dilation", w.dilation[1]},
                                               {"dilation", w.dilation[2]}}));
  const bool bytes = spec.type == DataType::kInt8 || spec.type == DataType::kUInt8;
  if (spec.type != DataType::kFloat32 && !(bytes && spec.kind == WindowPool::kMax)) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{}: not defined on {}", kName, OipName(spec.type)));
  }
  WindowPoolArgs args;
  args.window = w;
  args.pad_end = spec.pad_end;
  args.outputs = outputs;
  args.p = spec.p;
  args.column_major = spec.column_major;
  double taps_inside = 1;
  for (std::size_t a = 0; a < kSpatialAxes; ++a) {
    taps_inside *= static_cast<double>(std::min(w.kernel[a], CeilDivide(w.in[a], w.dilation[a])));
  }
  const double output_ns =
      kNsPerOutput +
      taps_inside * (spec.kind == WindowPool::kLp && spec.p != 2 ? 10 * kNsPerTap : kNsPerTap);
  args.blocks = BlocksFor(output_ns * static_cast<double>(outputs), outputs);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = FindBody(spec);
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(WindowPoolArgs, x)};
  kernel.outputs = {offsetof(WindowPoolArgs, y)};
  if (spec.indices) kernel.outputs.push_back(offsetof(WindowPoolArgs, indices));
  kernel.flops = static_cast<double>(outputs) * taps_inside;
  kernel.bytes_moved = static_cast<double>(outputs * SizeOf(spec.type));
  return kernel;
}

}  // namespace lagoon
