#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>

#include "kernels/checks.h"
#include "kernels/cuda/make/make.h"
#include "kernels/window.h"
#include "plan/element.h"

namespace lagoon::cuda {
namespace {

constexpr char kName[] = "conv2d";
constexpr u32 kMaxSplits = 16;

/// A body, and what it costs. A multiprocessor holds two blocks at once, a pair.
struct Body {
  BodyId id;
  Math math;
  ConvTile tile;
  double alone, pair;  // products that a multiprocessor computes in a cycle, with one block or two
  double start;        // cycles of a block or pair before and behind its products
};

// Exact bodies of 32x32 and 64x64: from the times of the kernels of four models on an H200
// (`lagoon bench machinery`), of which the products take a line over the depth (in cycles of 1.755
// GHz; 32x32: 38 alone, 48 as a pair; 64x64: 43 and 52) and the protocol takes 3.6 us. The index
// instructions that the bodies have lost since then are a sixth of all. The other bodies have no
// such measurement: their figures follow from their instructions.
constexpr Body kBodies[] = {
    {BodyId::kConv128x128Fp32, Math::kFp32, kTile128x128Fp32, 54, 67, 12'500},
    {BodyId::kConv64x64Fp32, Math::kFp32, kTile64x64Fp32, 51, 64, 10'700},
    {BodyId::kConv32x32Fp32, Math::kFp32, kTile32x32Fp32, 45, 58, 8'500},
    {BodyId::kConv128x128Bf16, Math::kBf16, kTile128x128Bf16, 380, 540, 12'500},
    {BodyId::kConv64x64Bf16, Math::kBf16, kTile64x64Bf16, 250, 350, 10'700},
    {BodyId::kConv32x32Bf16, Math::kBf16, kTile32x32Bf16, 150, 210, 8'500},
};

std::size_t WeightBytes(Math math) { return math == Math::kBf16 ? 2 : 4; }

std::size_t Depth(const Conv2dSpec& spec) { return WindowTaps(spec.window) * spec.in_channels; }

std::size_t WeightPitch(const Conv2dSpec& spec, Math math) {
  const std::size_t chunk = kConvChunkBytes / WeightBytes(math);
  return (Depth(spec) + chunk - 1) / chunk * chunk;
}

/// How a convolution is cut into blocks.
struct Cut {
  Body body;
  u32 row_tiles = 0, column_tiles = 0;
  u32 splits = 1, steps = 0;  // parts of the depth; steps of each
};

Cut CutOf(const Conv2dSpec& spec, const Body& body, u32 splits) {
  Cut cut{body};
  cut.row_tiles = TilesOf(OutputPixels(spec.window), body.tile.rows);
  cut.column_tiles = TilesOf(spec.out_channels, body.tile.columns);
  const u32 steps = TilesOf(Depth(spec), body.tile.depth);
  cut.steps = DivideUp(steps, std::min(splits, steps));
  cut.splits = DivideUp(steps, cut.steps);
  return cut;
}

/// An estimate of the cycles that the cut takes on a GPU of the class of an H100. It ranks cuts; a
/// factor of 1.5 either way changes few choices.
double CyclesOf(const Conv2dSpec& spec, const Cut& cut, u32 multiprocessors) {
  constexpr double kBytesOfOne = 40, kBytesOfAll = 2500;  // a cycle, from the L2 cache
  constexpr double kSum = 10'000;                         // a second kernel
  const ConvTile& tile = cut.body.tile;
  const double depth = double{1} * cut.steps * tile.depth;
  const double blocks = double{1} * cut.row_tiles * cut.column_tiles * cut.splits;
  const double most = std::ceil(blocks / multiprocessors);  // of a multiprocessor
  const double pairs = std::floor(most / 2), single = most - 2 * pairs;
  const double bytes =
      depth * (tile.rows * 4.0 + tile.columns * static_cast<double>(WeightBytes(cut.body.math)));
  const double products = depth * tile.rows * tile.columns;
  const double copies = bytes / kBytesOfOne;
  const double busy = pairs * std::max(2 * products / cut.body.pair, 2 * copies) +
                      single * std::max(products / cut.body.alone, copies);
  double cycles = (pairs + single) * cut.body.start + std::max(busy, blocks * bytes / kBytesOfAll);
  if (cut.splits > 1) {
    const double outputs = static_cast<double>(OutputPixels(spec.window)) * spec.out_channels;
    cycles += kSum + 2 * 4 * outputs * cut.splits / kBytesOfAll;
  }
  return cycles;
}

/// The cheapest cut, or the one that `options` ask for.
Result<Cut> PickCut(const Conv2dSpec& spec, const ConvOptions& options) {
  std::optional<Cut> picked;
  double least = 0;
  for (const Body& body : kBodies) {
    if (body.math != options.math) continue;
    if (options.tile_rows != 0 &&
        (body.tile.rows != options.tile_rows || body.tile.columns != options.tile_columns)) {
      continue;
    }
    const u32 first = options.splits != 0 ? options.splits : 1;
    const u32 last = options.splits != 0 ? options.splits : kMaxSplits;
    for (u32 splits = first; splits <= last; ++splits) {
      const Cut cut = CutOf(spec, body, splits);
      const double cycles = CyclesOf(spec, cut, options.multiprocessors);
      if (picked && cycles >= least) continue;
      picked = cut;
      least = cycles;
    }
  }
  if (picked) return *picked;
  return Unimplemented(kName, fmt::format("in tiles of {}x{} with math {}", options.tile_rows,
                                          options.tile_columns, static_cast<u32>(options.math)));
}

/// Adds the operands of the epilogue; `base` is the offset of the epilogue in the arguments.
void AddEpilogueInputs(const Conv2dSpec& spec, std::size_t base, CudaKernel& kernel) {
  if (spec.bias) kernel.inputs.push_back(U32(base + offsetof(EpilogueArgs, bias)));
  if (spec.epilogue.residual) {
    kernel.inputs.push_back(U32(base + offsetof(EpilogueArgs, residual)));
  }
}

CudaKernel SumOf(const Conv2dSpec& spec, const EpilogueArgs& epilogue, u32 splits,
                 std::size_t count) {
  SplitSumArgs args{};
  args.epilogue = epilogue;
  args.splits = splits;
  args.count = U32(count);
  args.channels = spec.out_channels;
  CudaKernel kernel;
  kernel.name = "split_sum";
  kernel.body = BodyId::kSplitSum;
  kernel.blocks = TilesOf(count, kElementTile);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(SplitSumArgs, parts)};
  AddEpilogueInputs(spec, offsetof(SplitSumArgs, epilogue), kernel);
  kernel.outputs = {offsetof(SplitSumArgs, y)};
  kernel.bytes_moved = 4.0 * static_cast<double>(count) * (splits + 1);
  return kernel;
}

/// The bodies count the packed weights in 32 bits. CheckElements() has seen to the input.
Status CheckWeights(const Conv2dSpec& spec, Math math) {
  constexpr std::size_t kMost = ~u32{0};
  const std::size_t packed = spec.out_channels * WeightPitch(spec, math);
  if (packed <= kMost) return {};
  return Unimplemented(kName,
                       fmt::format("with {} packed weights (the most is {})", packed, kMost));
}

Result<ConvArgs> ArgsOf(const Conv2dSpec& spec, const Cut& cut) {
  LAGOON_RETURN_IF_ERROR(CheckWeights(spec, cut.body.math));
  LAGOON_ASSIGN_OR_RETURN(const EpilogueArgs epilogue, EpilogueOf(kName, spec.epilogue));
  ConvArgs args{};
  args.epilogue = epilogue;
  args.window = spec.window;
  args.channels = spec.in_channels;
  args.out_channels = spec.out_channels;
  args.pixels = U32(OutputPixels(spec.window));
  args.depth = U32(Depth(spec));
  args.weight_pitch = U32(WeightPitch(spec, cut.body.math));
  args.chunks = spec.in_channels % (kConvChunkBytes / sizeof(float)) == 0 ? 1 : 0;
  args.row_tiles = cut.row_tiles;
  args.column_tiles = cut.column_tiles;
  args.splits = cut.splits;
  args.steps = cut.steps;
  return args;
}

/// Where number `k` of the depth lies in its row of packed weights. RoundedSums multiplies pairs of
/// x that lie four apart.
std::size_t PlaceOf(std::size_t k, Math math) {
  return math == Math::kBf16 ? k / 8 * 8 + k % 4 * 2 + k / 4 % 2 : k;
}

}  // namespace

Result<CudaConv> MakeCudaConv2d(const Conv2dSpec& spec, const ConvOptions& options) {
  Conv2dSpec exact = spec;  // every CPU supports this
  exact.precision = Precision::kFp32;
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeConv2d(exact));
  LAGOON_ASSIGN_OR_RETURN(const Cut cut, PickCut(spec, options));
  LAGOON_ASSIGN_OR_RETURN(ConvArgs args, ArgsOf(spec, cut));
  CudaConv conv;
  const std::size_t count = std::size_t{args.pixels} * args.out_channels;
  if (args.splits > 1) {
    conv.sum = SumOf(spec, args.epilogue, args.splits, count);
    conv.workspace_bytes = count * args.splits * sizeof(float);
    args.epilogue = NoEpilogue();
  }
  CudaKernel& kernel = conv.product;
  kernel.name = kName;
  kernel.body = cut.body.id;
  kernel.blocks = args.row_tiles * args.column_tiles * args.splits;
  kernel.shared_bytes = ConvSharedBytes(cut.body.tile, U32(WeightBytes(options.math)));
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ConvArgs, x), offsetof(ConvArgs, weights)};
  if (!conv.sum) AddEpilogueInputs(spec, offsetof(ConvArgs, epilogue), kernel);
  kernel.outputs = {offsetof(ConvArgs, y)};
  kernel.flops = cpu.flops;
  kernel.bytes_moved = cpu.bytes_moved;
  return conv;
}

std::size_t PackedCudaWeightBytes(const Conv2dSpec& spec, Math math) {
  return spec.out_channels * WeightPitch(spec, math) * WeightBytes(math);
}

void PackCudaWeights(const Conv2dSpec& spec, Math math, const float* weights, void* packed) {
  const std::size_t pitch = WeightPitch(spec, math), bytes = WeightBytes(math);
  const std::size_t taps = WindowTaps(spec.window), channels = spec.in_channels;
  auto* const to = static_cast<std::byte*>(packed);
  std::memset(to, 0, PackedCudaWeightBytes(spec, math));
  for (std::size_t n = 0; n < spec.out_channels; ++n) {
    for (std::size_t tap = 0; tap < taps; ++tap) {
      for (std::size_t c = 0; c < channels; ++c) {
        const float value = weights[(n * channels + c) * taps + tap];
        std::byte* const at = to + (n * pitch + PlaceOf(tap * channels + c, math)) * bytes;
        if (math == Math::kBf16) {
          const auto half = ConvertElement<BFloat16>(value);
          std::memcpy(at, &half, sizeof(half));
        } else {
          std::memcpy(at, &value, sizeof(value));
        }
      }
    }
  }
}

}  // namespace lagoon::cuda
