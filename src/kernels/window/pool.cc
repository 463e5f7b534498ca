#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window/pool.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees it.
#include "kernels/window/pool-inl.h"

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickPoolBodies);

constexpr char kName[] = "pool";

// Measured on a Xeon with AVX-512 at 2 GHz, one thread, operands beyond the second-level cache:
// 112x112x64 3x3/2 and 224x224x64 2x2/2.
constexpr double kNsPerInput = 0.2;
constexpr double kNsPerOutput = 0.1;
constexpr double kNsPerTap = 0.06;
constexpr double kNsPerLonelyTap = 0.25;  // below 64 channels a window waits for each of its sums

struct Sizes {
  std::size_t inputs = 0, outputs = 0, taps = 0;
};

Result<Sizes> CheckSizes(const PoolSpec& spec) {
  const ImageWindow& w = spec.window;
  const Field channels = {"channels", spec.channels};
  LAGOON_ASSIGN_OR_RETURN(const ImageElements images, CheckImages(kName, w, channels, channels));
  LAGOON_ASSIGN_OR_RETURN(
      const std::size_t taps,
      CheckElements(kName, "a window", {{"kernel_h", w.kernel_h}, {"kernel_w", w.kernel_w}}));
  return Sizes{images.inputs, images.outputs, taps};
}

/// Fails for a window without elements: a maximum or an average over nothing does not exist.
Status CheckWindows(const char* axis, const WindowAxis& window, std::size_t outputs) {
  for (std::size_t output = 0; output < outputs; ++output) {
    if (TapsOf(window, output).count != 0) continue;
    return Invalid(kName,
                   fmt::format("window {} of {} along the {} meets no element: size {}, kernel {}, "
                               "stride {}, dilation {}, padding before {}",
                               output, outputs, axis, window.size, window.taps, window.stride,
                               window.dilation, window.pad));
  }
  return {};
}

/// A block has several windows if one window is cheap; otherwise one vector of one window, whose
/// body checks its guards between taps.
void SetTiles(const Sizes& sizes, std::size_t lanes, PoolArgs& args) {
  const double ns_per_tap = args.spec.channels < 64 ? kNsPerLonelyTap : kNsPerTap;
  const double ns_per_output = kNsPerOutput + ns_per_tap * static_cast<double>(sizes.taps);
  const std::size_t channels = args.spec.channels;
  const std::size_t windows = sizes.outputs / channels;
  const std::size_t grain = std::min(channels, kPoolChannelGrain);
  if (ns_per_output * static_cast<double>(grain) > kBlockNs) {
    args.long_windows = true;
    args.channel_tile = static_cast<std::uint32_t>(std::min(lanes, channels));
    args.channel_tiles = static_cast<std::uint32_t>(CeilDivide(channels, lanes));
    args.window_tiles = static_cast<std::uint32_t>(windows);
    return;
  }
  const double ns = kNsPerInput * static_cast<double>(sizes.inputs) +
                    ns_per_output * static_cast<double>(sizes.outputs);
  const std::size_t grains = CeilDivide(channels, grain);
  const std::size_t wanted = BlocksFor(ns, windows * grains);
  args.window_tiles = static_cast<std::uint32_t>(std::min(wanted, windows));
  const std::size_t tiles = std::min(grains, CeilDivide(wanted, args.window_tiles));
  args.channel_tile = static_cast<std::uint32_t>(CeilDivide(grains, tiles) * grain);
  args.channel_tiles = static_cast<std::uint32_t>(CeilDivide(channels, args.channel_tile));
}

}  // namespace

Result<Kernel> MakePool(const PoolSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Sizes sizes, CheckSizes(spec));
  LAGOON_RETURN_IF_ERROR(CheckWindows("height", RowAxis(spec.window), spec.window.out_height));
  LAGOON_RETURN_IF_ERROR(CheckWindows("width", ColumnAxis(spec.window), spec.window.out_width));
  const PoolBodies bodies = LAGOON_DISPATCH(PickPoolBodies)();
  PoolArgs args;
  args.spec = spec;
  SetTiles(sizes, bodies.lanes, args);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = spec.kind == PoolSpec::Kind::kMax ? bodies.max : bodies.average;
  kernel.blocks = args.window_tiles * args.channel_tiles;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(PoolArgs, x)};
  kernel.outputs = {offsetof(PoolArgs, y)};
  kernel.flops = static_cast<double>(sizes.outputs) * static_cast<double>(sizes.taps);
  kernel.bytes_moved = sizeof(float) * static_cast<double>(sizes.inputs + sizes.outputs);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
