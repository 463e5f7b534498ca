// foreach_target.h compiles the first half once per instruction set; the factory follows once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/grouped_conv.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include "kernels/conv/grouped_conv-inl.h"

#if HWY_ONCE
#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickGroupedConv);

constexpr char kName[] = "grouped_conv";

// Limits for the smallest tile's input: one row is copied between two guard checks, all of it must
// fit a block's scratch.
constexpr std::size_t kMaxPatchRowFloats = std::size_t{1} << 16;
constexpr std::size_t kMaxPatchFloats = std::size_t{1} << 20;
constexpr std::size_t kMaxTaps = 1024;

// Measured on a Xeon with AVX-512 at 2 GHz, one thread, on ResNeXt-50's layers: a vector of
// products (with a permutation of its own if a panel has several groups), a vector of outputs, and
// a float of the patch.
constexpr double kNsPerProduct = 0.3;
constexpr double kNsPerPermuted = 0.5;
constexpr double kNsPerOutput = 4;
constexpr double kNsPerPatchFloat = 0.12;

// Time between two guard checks of a block of one panel.
constexpr double kPieceNs = 6'000;
// Most weights of a piece, which the first cache keeps while all pixels of the block read them.
constexpr std::size_t kPieceBytes = std::size_t{16} << 10;
// Weights of a panel that the second cache does not keep from block to block: then a block has at
// least so many segments.
constexpr std::size_t kManyBytes = std::size_t{128} << 10;
constexpr std::size_t kFewestSegments = 4;

// The cuts that are offered as versions: target block times, and numbers of panels per block.
constexpr double kVersionNs[] = {kBlockNs, 8'000, 6'000, 4'000, 2'500, 1'500};
constexpr std::size_t kVersionPanels[] = {1, 2, 4};

GroupedConvTarget ChosenTarget() { return LAGOON_DISPATCH(PickGroupedConv)(); }

std::size_t DepthOf(const GroupedConvSpec& spec) { return spec.in_channels / spec.groups; }

Status CheckGroups(const GroupedConvSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"groups", spec.groups}}));
  if (spec.in_channels % spec.groups == 0 && spec.out_channels % spec.groups == 0) return {};
  return Invalid(kName, fmt::format("groups {} do not divide in_channels {} and out_channels {}",
                                    spec.groups, spec.in_channels, spec.out_channels));
}

struct Sizes {
  std::size_t inputs = 0, outputs = 0, weights = 0;
};

Result<Sizes> CheckSizes(const GroupedConvSpec& spec) {
  const ImageWindow& w = spec.window;
  LAGOON_ASSIGN_OR_RETURN(const ImageElements images,
                          CheckImages(kName, w, {"in_channels", spec.in_channels},
                                      {"out_channels", spec.out_channels}));
  LAGOON_RETURN_IF_ERROR(CheckGroups(spec));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t weights,
                          CheckElements(kName, "weights",
                                        {{"out_channels", spec.out_channels},
                                         {"in_channels", DepthOf(spec)},
                                         {"kernel_h", w.kernel_h},
                                         {"kernel_w", w.kernel_w}}));
  if (!FitsGroupedConv(spec)) {
    return Invalid(kName,
                   fmt::format("a kernel of {}x{} at dilation {}x{} and stride {}x{} over {} "
                               "channels reaches too far for one block",
                               w.kernel_h, w.kernel_w, w.dilation_h, w.dilation_w, w.stride_h,
                               w.stride_w, DepthOf(spec)));
  }
  return Sizes{images.inputs, images.outputs, weights};
}

/// Largest number of rows and columns of a block's output.
struct Shape {
  std::size_t rows = 1, columns = 1;
};
Shape LargestTile(const GroupedConvArgs& args) {
  return {CeilDivide(args.spec.window.out_height, args.row_tiles),
          CeilDivide(args.spec.window.out_width, args.column_tiles)};
}

/// Bytes of the weights of a panel.
std::size_t WeightBytes(const GroupedConvArgs& args) {
  return sizeof(float) * WindowTaps(args.spec.window) * DepthOf(args.spec) * args.panels.lanes;
}

/// Floats of the input of a tile and a panel.
std::size_t PatchFloats(const GroupedConvSpec& spec, const GroupedPanels& panels,
                        const Shape& tile) {
  const ImageWindow& w = spec.window;
  return ReachOf(tile.rows, w.stride_h, w.kernel_h, w.dilation_h) *
         ReachOf(tile.columns, w.stride_w, w.kernel_w, w.dilation_w) * PatchSlot(spec, panels);
}

/// Time of one panel of a tile.
double TileNs(const GroupedConvArgs& args, const Shape& tile) {
  const GroupedConvSpec& spec = args.spec;
  const double product = args.panels.several() ? kNsPerPermuted : kNsPerProduct;
  const double output = product * static_cast<double>(WindowTaps(spec.window) * DepthOf(spec)) +
                        kNsPerOutput + FinishNs(spec.epilogue) * args.panels.lanes;
  return output * static_cast<double>(tile.rows * tile.columns) +
         kNsPerPatchFloat * static_cast<double>(PatchFloats(spec, args.panels, tile));
}

/// Makes a small number of blocks even, so that two units finish together.
std::uint32_t Even(std::size_t tiles, std::size_t most) {
  if (tiles > 1 && tiles < 16 && tiles < most) tiles += tiles % 2;
  return static_cast<std::uint32_t>(tiles);
}

/// Cuts for blocks of `ns`: several panels per block if they are short, else one panel, its rows
/// cut, else parts of a row.
void SetTiles(double ns, std::size_t pixels, GroupedConvArgs& args) {
  const ImageWindow& w = args.spec.window;
  const double panel = TileNs(args, {w.out_height, w.out_width});
  const auto whole = [](double ratio) {
    return static_cast<std::size_t>(std::clamp(ratio, 1.0, 1e9));
  };
  args.panel_tiles = Even(CeilDivide(args.panels.count, whole(ns / panel)), args.panels.count);
  args.row_tiles = args.column_tiles = 1;
  const Shape fewest = {1, std::min<std::size_t>(w.out_width, kFewestSegments * pixels)};
  if (ns == kBlockNs && WeightBytes(args) > kManyBytes &&
      PatchFloats(args.spec, args.panels, fewest) <= kMaxPatchRowFloats) {
    ns = std::max(ns, TileNs(args, {1, kFewestSegments * pixels}));
  }
  const std::size_t rows = whole(ns / TileNs(args, {1, w.out_width}));
  args.row_tiles = Even(CeilDivide(w.out_height, rows), w.out_height);
  if (args.row_tiles < w.out_height) return;
  const double segment = TileNs(args, {1, pixels});
  const std::size_t columns = pixels * whole(ns / segment);
  args.column_tiles = static_cast<std::uint32_t>(CeilDivide(w.out_width, columns));
}

/// Cuts the filter so that the weights of a piece stay in the cache while all pixels of a block use
/// them. The sums of an output are made in the same order for all cuts; only where one tap is too
/// long for the time between two guard checks, the depth is cut as well.
void SetPieces(std::size_t pixels, GroupedConvArgs& args) {
  const ImageWindow& w = args.spec.window;
  const Shape tile = LargestTile(args);
  std::size_t pieces = CeilDivide(WeightBytes(args), kPieceBytes);
  std::size_t times = 1;
  // Other blocks are short: of several panels, or cut along rows.
  const bool one_segment = tile.rows == 1 && tile.columns <= pixels;
  if (args.panel_tiles == args.panels.count && (one_segment || pieces > 1)) {
    times =
        static_cast<std::size_t>(std::clamp(std::ceil(TileNs(args, tile) / kPieceNs), 1.0, 1e6));
  }
  pieces = std::max(pieces, times);
  args.row_pieces = static_cast<std::uint32_t>(std::min<std::size_t>(w.kernel_h, pieces));
  args.column_pieces = args.depth_pieces = 1;
  if (args.row_pieces < w.kernel_h) return;
  if (w.kernel_w > 3) {  // up to 3 columns are one step
    args.column_pieces = static_cast<std::uint32_t>(
        std::min<std::size_t>(w.kernel_w, CeilDivide(pieces, w.kernel_h)));
    if (args.column_pieces < w.kernel_w) return;
  }
  args.depth_pieces = static_cast<std::uint32_t>(std::min<std::size_t>(
      DepthOf(args.spec), CeilDivide(times, std::size_t{args.row_pieces} * args.column_pieces)));
}

KernelVersion VersionOf(const GroupedConvArgs& args) {
  KernelVersion version;
  version.name = fmt::format("{}:{}x{}x{}", NameOf(ChosenTarget().level), args.row_tiles,
                             args.column_tiles, args.panel_tiles);
  version.args = ArgsImage(args);
  const std::uint64_t blocks =
      std::uint64_t{args.spec.window.batch} * args.row_tiles * args.column_tiles * args.panel_tiles;
  LAGOON_CHECK(blocks <= kMaxElements);
  version.blocks = static_cast<std::uint32_t>(blocks);
  const Shape tile = LargestTile(args);
  version.scratch_bytes = sizeof(float) * (tile.rows * tile.columns * args.panels.lanes +
                                           PatchFloats(args.spec, args.panels, tile));
  return version;
}

/// Different versions, the one for the usual block time first.
std::vector<KernelVersion> VersionsOf(const GroupedConvArgs& args, std::size_t pixels) {
  std::vector<KernelVersion> versions;
  for (const std::size_t shared : kVersionPanels) {
    for (const double ns : kVersionNs) {
      GroupedConvArgs cut = args;
      SetTiles(ns / static_cast<double>(shared), pixels, cut);
      if (cut.panel_tiles < shared) continue;
      cut.panel_tiles = static_cast<std::uint32_t>(CeilDivide(cut.panel_tiles, shared));
      SetPieces(pixels, cut);
      KernelVersion version = VersionOf(cut);
      const bool known = std::any_of(versions.begin(), versions.end(),
                                     [&](const auto& other) { return other.name == version.name; });
      if (!known) versions.push_back(std::move(version));
    }
  }
  return versions;
}

}  // namespace

bool FitsGroupedConv(const GroupedConvSpec& spec) {
  const ImageWindow& w = spec.window;
  const GroupedConvTarget target = ChosenTarget();
  const std::size_t slot = PatchSlot(spec, PanelsOf(spec, target.lanes));
  const std::size_t columns = std::min<std::size_t>(target.pixels, w.out_width);
  // Every factor is below 2^37, and a sum of two below 2^64.
  const std::size_t row = ReachOf(columns, w.stride_w, w.kernel_w, w.dilation_w);
  const std::size_t rows = ReachOf(1, w.stride_h, w.kernel_h, w.dilation_h);
  if (row > kMaxPatchRowFloats / slot || rows > kMaxPatchFloats / (row * slot)) return false;
  return WindowTaps(w) <= kMaxTaps;
}

Result<Kernel> MakeGroupedConv(const GroupedConvSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Sizes sizes, CheckSizes(spec));
  const GroupedConvTarget target = ChosenTarget();
  GroupedConvArgs args;
  args.spec = spec;
  args.panels = PanelsOf(spec, target.lanes);
  if (spec.epilogue.residual) return Invalid(kName, "epilogue.residual is not supported");
  LAGOON_ASSIGN_OR_RETURN(args.limits, LimitsOf(kName, spec.epilogue));
  LAGOON_ASSIGN_OR_RETURN(args.finish, FinishOf(kName, spec.epilogue));
  Kernel kernel;
  kernel.name = kName;
  kernel.body = target.body;
  kernel.versions = VersionsOf(args, target.pixels);
  const KernelVersion& usual = kernel.versions.front();
  kernel.args = usual.args;
  kernel.blocks = usual.blocks;
  kernel.scratch_bytes = usual.scratch_bytes;
  kernel.inputs = {offsetof(GroupedConvArgs, x), offsetof(GroupedConvArgs, weights)};
  if (spec.bias) kernel.inputs.push_back(offsetof(GroupedConvArgs, bias));
  kernel.outputs = {offsetof(GroupedConvArgs, y)};
  const auto products = static_cast<double>(WindowTaps(spec.window) * DepthOf(spec));
  kernel.flops = 2.0 * static_cast<double>(sizes.outputs) * products;
  kernel.bytes_moved =
      sizeof(float) * static_cast<double>(sizes.inputs + sizes.outputs + sizes.weights);
  return kernel;
}

std::size_t PackedGroupedConvWeightBytes(const GroupedConvSpec& spec) {
  const GroupedPanels panels = PanelsOf(spec, ChosenTarget().lanes);
  return sizeof(float) * panels.count * WindowTaps(spec.window) * DepthOf(spec) * panels.lanes;
}

void PackGroupedConvWeights(const GroupedConvSpec& spec, const float* weights, void* packed) {
  const GroupedPanels panels = PanelsOf(spec, ChosenTarget().lanes);
  const std::size_t taps = WindowTaps(spec.window), depth = DepthOf(spec);
  auto* to = static_cast<float*>(packed);
  for (std::size_t panel = 0; panel < panels.count; ++panel) {
    const Range channels = ChannelsOf(spec, panels, panel).out;
    for (std::size_t tap = 0; tap < taps; ++tap) {
      for (std::size_t i = 0; i < depth; ++i, to += panels.lanes) {
        std::fill_n(to, panels.lanes, 0.0f);
        for (std::size_t lane = 0; lane < channels.size(); ++lane) {
          to[lane] = weights[((channels.begin + lane) * depth + i) * taps + tap];
        }
      }
    }
  }
}

}  // namespace lagoon
#endif  // HWY_ONCE
