#include "kernels/conv/conv2d.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "kernels/activation.h"
#include "kernels/checks.h"
#include "kernels/conv/bf16/conv2d_bf16.h"
#include "kernels/conv/conv2d_args.h"
#include "kernels/conv/conv2d_block.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/conv/conv2d_kernel.h"
#include "kernels/conv/conv2d_tiling.h"
#include "kernels/conv/gemv_args.h"

namespace lagoon {
namespace {

// Limit for one block's private memory; only huge dilations or paddings come near this limit.
constexpr std::size_t kMaxScratchBytes = std::size_t{64} << 20;

// Matrix-vector products run at the speed of memory: bytes per us, and the time per block.
constexpr double kGemvRate = 12e3;
constexpr double kGemvBlockUs = 35;
constexpr std::size_t kGemvChunkBytes = 64 << 10;  // 3 to 6 us between checks

// The positions that a row or column of outputs reads must fit the body's integers.
Status CheckExtent(std::string_view axis, std::size_t out, std::size_t stride, std::size_t kernel,
                   std::size_t dilation, std::size_t pad) {
  const std::size_t outputs = (out - 1) * stride, window = (kernel - 1) * dilation;
  if (outputs < kMaxElements && window < kMaxElements && pad < kMaxElements) return {};
  return Invalid(kConvOp, std::string(axis) + ": stride " + std::to_string(stride) + ", dilation " +
                              std::to_string(dilation) + " and padding " + std::to_string(pad) +
                              " reach too far for an output of " + std::to_string(out) +
                              " and a kernel of " + std::to_string(kernel));
}

Status CheckSpec(const Conv2dSpec& s) {
  const ImageWindow& w = s.window;
  LAGOON_RETURN_IF_ERROR(
      CheckImages(kConvOp, w, {"in_channels", s.in_channels}, {"out_channels", s.out_channels}));
  LAGOON_RETURN_IF_ERROR(CheckElements(kConvOp, "weights",
                                       {{"out_channels", s.out_channels},
                                        {"in_channels", s.in_channels},
                                        {"kernel_h", w.kernel_h},
                                        {"kernel_w", w.kernel_w}}));
  LAGOON_RETURN_IF_ERROR(
      CheckExtent("height", w.out_height, w.stride_h, w.kernel_h, w.dilation_h, w.pad_top));
  LAGOON_RETURN_IF_ERROR(
      CheckExtent("width", w.out_width, w.stride_w, w.kernel_w, w.dilation_w, w.pad_left));
  if (s.epilogue.residual_last && !s.epilogue.residual) {
    return Invalid(kConvOp, "epilogue.residual_last without a residual");
  }
  return {};
}

// "avx2:7x1x2": the level of the body, then the number of parts of the rows, of a row and of the
// channels; "avx2:7x1x2p": consecutive blocks differ in their channels.
std::string VersionName(const Conv2dArgs& args) {
  return fmt::format("{}:{}x{}x{}{}", NameOf(args.target->level), args.row_tiles,
                     args.segment_tiles, args.panel_tiles,
                     args.panels_first && args.panel_tiles > 1 ? "p" : "");
}

Result<Kernel> MakeGemv(const Conv2dSpec& spec, const ConvTarget& target) {
  const bool bf16 = spec.precision == Precision::kBf16;
  GemvArgs args{};
  args.depth = spec.in_channels;
  args.outputs = spec.out_channels;
  args.groups = static_cast<std::uint32_t>(CeilDivide(spec.out_channels, kGemvGroup));
  const std::size_t vectors = GemvVectors(spec.in_channels, target.lanes, bf16);
  const std::size_t vector_bytes =
      kGemvGroup * target.lanes * (bf16 ? sizeof(Bf16) : sizeof(float));
  args.chunk_vectors = static_cast<std::uint32_t>(kGemvChunkBytes / vector_bytes);
  const double us = static_cast<double>(args.groups * vectors * vector_bytes) / kGemvRate;
  args.blocks = static_cast<std::uint32_t>(
      std::min<double>(args.groups, 2 * std::ceil(us / kGemvBlockUs / 2)));
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel, KernelOf(spec, args));
  kernel.name = bf16 ? "gemv_bf16" : "gemv";
  kernel.body = bf16 ? target.gemv_bf16 : target.gemv;
  kernel.blocks = args.blocks;
  kernel.scratch_bytes = CeilDivide(args.groups, args.blocks) * kGemvGroup * sizeof(float);
  return kernel;
}

}  // namespace

Result<Kernel> MakeConv2d(const Conv2dSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckSpec(spec));
  LAGOON_RETURN_IF_ERROR(CheckPrecision(spec.precision));
  const ConvTarget& target = ChosenConvTarget();
  if (IsGemv(spec)) return MakeGemv(spec, target);
  if (spec.precision == Precision::kBf16) {
    LAGOON_ASSIGN_OR_RETURN(const Bf16Unit* const unit, FindBf16Unit());
    return MakeBf16Conv2d(spec, *unit);
  }
  const std::vector<ConvTiling> tilings = spec.all_versions
                                              ? TileConv2dVersions(spec, target, kConvVersions)
                                              : std::vector<ConvTiling>{TileConv2d(spec, target)};
  const ConvTiling& tiling = tilings.front();
  if (tiling.scratch_bytes > kMaxScratchBytes) {
    return Invalid(kConvOp, "dilation_w " + std::to_string(spec.window.dilation_w) +
                                " and stride_w " + std::to_string(spec.window.stride_w) +
                                " spread a tile over " + std::to_string(tiling.scratch_bytes) +
                                " bytes, more than " + std::to_string(kMaxScratchBytes));
  }
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel, KernelOfVersions(spec, tilings, VersionName));
  kernel.name = "conv2d";
  kernel.body = &Conv2dBody;
  return kernel;
}

}  // namespace lagoon
