#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/cuda/make/make.h"
#include "kernels/window.h"
#include "plan/element.h"

namespace lagoon::cuda {
namespace {

constexpr char kName[] = "conv2d";
/// Least steps of a split: with fewer, the sums cost more than the products.
constexpr u32 kMinSplitSteps = 8;
constexpr u32 kMaxSplits = 16;

struct Tile {
  BodyId body;
  Math math;
  u32 rows, columns;
};

// The largest first.
constexpr Tile kTiles[] = {
    {BodyId::kConv128x128Tf32, Math::kTf32, 128, 128},
    {BodyId::kConv128x128Bf16, Math::kBf16, 128, 128},
    {BodyId::kConv128x128F16, Math::kF16, 128, 128},
    {BodyId::kConv64x64Fp32, Math::kFp32, 64, 64},
    {BodyId::kConv64x64Tf32, Math::kTf32, 64, 64},
    {BodyId::kConv64x64Bf16, Math::kBf16, 64, 64},
    {BodyId::kConv64x64F16, Math::kF16, 64, 64},
    {BodyId::kConv64x32Tf32, Math::kTf32, 64, 32},
    {BodyId::kConv64x32Bf16, Math::kBf16, 64, 32},
    {BodyId::kConv64x32F16, Math::kF16, 64, 32},
};

bool IsHalf(Math math) { return math == Math::kBf16 || math == Math::kF16; }
std::size_t OperandBytes(Math math) { return IsHalf(math) ? 2 : 4; }

std::size_t Depth(const Conv2dSpec& spec) { return WindowTaps(spec.window) * spec.in_channels; }

std::size_t WeightPitch(const Conv2dSpec& spec, Math math) {
  const std::size_t chunk = kConvChunkBytes / OperandBytes(math);
  return (Depth(spec) + chunk - 1) / chunk * chunk;
}

u32 BlocksOf(const Tile& tile, std::size_t pixels, std::size_t channels) {
  return TilesOf(pixels, tile.rows) * TilesOf(channels, tile.columns);
}

/// The largest tile size that fills the GPU, otherwise the smallest one.
Result<Tile> PickTile(const Conv2dSpec& spec, std::size_t pixels, const ConvOptions& options) {
  const Tile* picked = nullptr;
  for (const Tile& tile : kTiles) {
    if (tile.math != options.math) continue;
    if (options.tile_rows != 0) {
      if (tile.rows == options.tile_rows && tile.columns == options.tile_columns) return tile;
      continue;
    }
    picked = &tile;
    if (BlocksOf(tile, pixels, spec.out_channels) >= options.multiprocessors) break;
  }
  if (picked != nullptr) return *picked;
  return Unimplemented(kName, fmt::format("in tiles of {}x{} with math {}", options.tile_rows,
                                          options.tile_columns, static_cast<u32>(options.math)));
}

u32 PickSplits(u32 blocks, u32 steps, const ConvOptions& options) {
  if (options.splits != 0) return std::min(options.splits, steps);
  const u32 fill = options.multiprocessors / std::max(blocks, 1u);
  return std::clamp(std::min(fill, steps / kMinSplitSteps), 1u, kMaxSplits);
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

Result<ConvArgs> ArgsOf(const Conv2dSpec& spec, const ConvOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const EpilogueArgs epilogue, EpilogueOf(kName, spec.epilogue));
  ConvArgs args{};
  args.epilogue = epilogue;
  args.window = spec.window;
  args.channels = spec.in_channels;
  args.out_channels = spec.out_channels;
  args.pixels = U32(OutputPixels(spec.window));
  args.depth = U32(Depth(spec));
  args.weight_pitch = U32(WeightPitch(spec, options.math));
  args.chunks = spec.in_channels % (kConvChunkBytes / OperandBytes(options.math)) == 0 ? 1 : 0;
  args.half_y = options.half_y ? 1 : 0;
  return args;
}

}  // namespace

Result<CudaConv> MakeCudaConv2d(const Conv2dSpec& spec, const ConvOptions& options) {
  Conv2dSpec exact = spec;  // every CPU supports this
  exact.precision = Precision::kFp32;
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeConv2d(exact));
  if (options.half_y && !IsHalf(options.math)) return Invalid(kName, "half_y of fp32 operands");
  LAGOON_ASSIGN_OR_RETURN(ConvArgs args, ArgsOf(spec, options));
  LAGOON_ASSIGN_OR_RETURN(const Tile tile, PickTile(spec, args.pixels, options));
  args.row_tiles = DivideUp(args.pixels, tile.rows);
  args.column_tiles = DivideUp(args.out_channels, tile.columns);
  const u32 tiles = args.row_tiles * args.column_tiles;
  const u32 steps = TilesOf(args.depth, U32(kConvRowBytes / OperandBytes(options.math)));
  // Sums of parts are fp32 only.
  const u32 wanted = options.half_y ? 1 : PickSplits(tiles, steps, options);
  args.steps = DivideUp(steps, wanted);
  args.splits = DivideUp(steps, args.steps);
  CudaConv conv;
  const std::size_t count = std::size_t{args.pixels} * args.out_channels;
  if (args.splits > 1) {
    conv.sum = SumOf(spec, args.epilogue, args.splits, count);
    conv.workspace_bytes = count * args.splits * sizeof(float);
    args.epilogue = NoEpilogue();
  }
  CudaKernel& kernel = conv.product;
  kernel.name = kName;
  kernel.body = tile.body;
  kernel.blocks = tiles * args.splits;
  kernel.shared_bytes = ConvSharedBytes(tile.rows, tile.columns);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ConvArgs, x), offsetof(ConvArgs, weights)};
  if (!conv.sum) AddEpilogueInputs(spec, offsetof(ConvArgs, epilogue), kernel);
  kernel.outputs = {offsetof(ConvArgs, y)};
  kernel.flops = cpu.flops;
  kernel.bytes_moved = cpu.bytes_moved;
  return conv;
}

std::size_t PackedCudaWeightBytes(const Conv2dSpec& spec, Math math) {
  return spec.out_channels * WeightPitch(spec, math) * OperandBytes(math);
}

void PackCudaWeights(const Conv2dSpec& spec, Math math, const float* weights, void* packed) {
  const std::size_t pitch = WeightPitch(spec, math), bytes = OperandBytes(math);
  const std::size_t taps = WindowTaps(spec.window), channels = spec.in_channels;
  auto* const to = static_cast<std::byte*>(packed);
  std::memset(to, 0, PackedCudaWeightBytes(spec, math));
  for (std::size_t n = 0; n < spec.out_channels; ++n) {
    for (std::size_t tap = 0; tap < taps; ++tap) {
      for (std::size_t c = 0; c < channels; ++c) {
        const float value = weights[(n * channels + c) * taps + tap];
        std::byte* const at = to + (n * pitch + tap * channels + c) * bytes;
        if (math == Math::kBf16) {
          const auto half = ConvertElement<BFloat16>(value);
          std::memcpy(at, &half, sizeof(half));
        } else if (math == Math::kF16) {
          const auto half = ConvertElement<Float16>(value);
          std::memcpy(at, &half, sizeof(half));
        } else {
          std::memcpy(at, &value, sizeof(value));
        }
      }
    }
  }
}

}  // namespace lagoon::cuda
