// foreach_target.h compiles the first half once per instruction set; the factory follows once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include "kernels/conv/depthwise-inl.h"

#if HWY_ONCE
#include <fmt/format.h>

#include "base/check.h"
#include "kernels/activation.h"
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickDepthwiseBody);

constexpr char kName[] = "depthwise";

// Measured on a Xeon with AVX-512 at 2 GHz, one thread, operands beyond the second-level cache:
// 112x112x32 at stride 1 takes 144 us, 112x112x96 at stride 2 takes 220 us.
constexpr double kNsPerInput = 0.2;
constexpr double kNsPerOutput = 0.05;
constexpr double kNsPerTap = 0.018;
// A filter without an unrolled body loads two vectors per tap; below 64 channels it also waits for
// each sum.
constexpr double kNsPerPlainTap = 0.06;
constexpr double kNsPerLonelyTap = 0.2;

struct Sizes {
  std::size_t inputs = 0, outputs = 0, taps = 0;
};

Result<Sizes> CheckSizes(const DepthwiseSpec& spec) {
  const ImageWindow& w = spec.window;
  const Field channels = {"channels", spec.channels};
  LAGOON_ASSIGN_OR_RETURN(const ImageElements images, CheckImages(kName, w, channels, channels));
  LAGOON_ASSIGN_OR_RETURN(
      const std::size_t taps,
      CheckElements(kName, "a filter", {{"kernel_h", w.kernel_h}, {"kernel_w", w.kernel_w}}));
  return Sizes{images.inputs, images.outputs, taps};
}

Result<Sizes> Check(const DepthwiseSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Sizes sizes, CheckSizes(spec));
  if (sizes.taps > kMaxDepthwiseTaps) {
    return Invalid(kName, fmt::format("kernel_h {} x kernel_w {} is {} taps, the most is {}",
                                      spec.window.kernel_h, spec.window.kernel_w, sizes.taps,
                                      kMaxDepthwiseTaps));
  }
  return sizes;
}

double NsPerOutput(const DepthwiseSpec& spec, std::size_t taps) {
  const double plain = spec.channels < 64 ? kNsPerLonelyTap : kNsPerPlainTap;
  return kNsPerOutput + (IsUnrolled(spec) ? kNsPerTap : plain) * static_cast<double>(taps);
}

constexpr std::size_t RoundDivide(std::size_t value, std::size_t by) {
  return std::max<std::size_t>(1, (value + by / 2) / by);
}

/// A number of tiles so that each has about `wanted` things, and none more than half above that. A
/// small number is made even, so that two units finish together.
std::uint32_t EvenTiles(std::size_t things, std::size_t wanted) {
  std::size_t tiles = CeilDivide(things, RoundDivide(things, wanted));
  if (tiles > 1 && tiles < 16 && tiles < things) tiles += tiles % 2;
  return static_cast<std::uint32_t>(tiles);
}

/// Cuts rows first, because a block of whole rows reads memory in one piece. Narrow images are cut
/// along channels before that, because a band of few rows reads many rows twice.
void SetTiles(const Sizes& sizes, DepthwiseArgs& args) {
  const DepthwiseSpec& spec = args.spec;
  const ImageWindow& w = spec.window;
  const std::size_t grains = CeilDivide(spec.channels, kDepthwiseChannelGrain);
  const std::size_t pixels = std::size_t{w.out_height} * w.out_width;
  const std::size_t image_inputs = sizes.inputs / w.batch;
  const double ns = kNsPerInput * static_cast<double>(image_inputs) +
                    (NsPerOutput(spec, sizes.taps) + FinishNs(spec.epilogue)) *
                        static_cast<double>(pixels * grains * kDepthwiseChannelGrain);
  std::size_t wanted = BlocksFor(ns, pixels * grains);
  const bool narrow = w.out_height <= 14;
  args.channel_tiles = narrow ? EvenTiles(grains, std::min(wanted, CeilDivide(grains, 4))) : 1;
  wanted = RoundDivide(wanted, args.channel_tiles);
  args.row_tiles = EvenTiles(w.out_height, wanted);
  wanted = RoundDivide(wanted, args.row_tiles);
  args.column_tiles = EvenTiles(w.out_width, wanted);
  wanted = RoundDivide(wanted, args.column_tiles);
  if (wanted > 1) args.channel_tiles = static_cast<std::uint32_t>(grains);
}

}  // namespace

Result<Kernel> MakeDepthwise(const DepthwiseSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Sizes sizes, Check(spec));
  DepthwiseArgs args;
  args.spec = spec;
  if (spec.epilogue.residual) return Invalid(kName, "epilogue.residual is not supported");
  LAGOON_ASSIGN_OR_RETURN(args.limits, LimitsOf(kName, spec.epilogue));
  LAGOON_ASSIGN_OR_RETURN(args.finish, FinishOf(kName, spec.epilogue));
  SetTiles(sizes, args);
  const std::uint64_t blocks =
      std::uint64_t{spec.window.batch} * args.row_tiles * args.column_tiles * args.channel_tiles;
  LAGOON_CHECK(blocks <= kMaxElements);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickDepthwiseBody)(spec);
  kernel.blocks = static_cast<std::uint32_t>(blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(DepthwiseArgs, x), offsetof(DepthwiseArgs, weights)};
  if (spec.bias) kernel.inputs.push_back(offsetof(DepthwiseArgs, bias));
  kernel.outputs = {offsetof(DepthwiseArgs, y)};
  kernel.flops = 2.0 * static_cast<double>(sizes.outputs) * static_cast<double>(sizes.taps);
  kernel.bytes_moved =
      sizeof(float) * static_cast<double>(sizes.inputs + sizes.outputs +
                                          spec.channels * (sizes.taps + (spec.bias ? 1 : 0)));
  return kernel;
}

std::size_t PackedDepthwiseWeightBytes(const DepthwiseSpec& spec) {
  return sizeof(float) * spec.channels * WindowTaps(spec.window);
}

void PackDepthwiseWeights(const DepthwiseSpec& spec, const float* weights, void* packed) {
  const std::size_t taps = WindowTaps(spec.window);
  auto* to = static_cast<float*>(packed);
  for (std::size_t tap = 0; tap < taps; ++tap) {
    for (std::size_t channel = 0; channel < spec.channels; ++channel) {
      to[tap * spec.channels + channel] = weights[channel * taps + tap];
    }
  }
}

}  // namespace lagoon
#endif  // HWY_ONCE
