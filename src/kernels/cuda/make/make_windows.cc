#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/make/make.h"
#include "kernels/window.h"

namespace lagoon::cuda {
namespace {

/// `loads`: numbers of x that one tap of an output reads.
WindowWalk WalkOf(const ImageWindow& window, u32 in_channels, u32 channels, u32 loads = 1) {
  return {.window = window,
          .in_channels = in_channels,
          .channels = channels,
          .count = U32(OutputPixels(window)) * channels,
          .taps_per_check = std::max(1u, kWindowLoadsPerCheck / loads)};
}

Pool KindOf(PoolSpec::Kind kind) {
  if (kind == PoolSpec::Kind::kMax) return Pool::kMax;
  return kind == PoolSpec::Kind::kAverage ? Pool::kAverage : Pool::kAverageCountPadding;
}

CudaKernel GroupedKernel(const char* name, const GroupedConvArgs& args, bool bias,
                         const Kernel& cpu) {
  CudaKernel kernel =
      KernelLike(cpu, name, BodyId::kGroupedConv, TilesOf(args.walk.count, kWindowTile), args);
  kernel.inputs = {offsetof(GroupedConvArgs, x), offsetof(GroupedConvArgs, weights)};
  if (bias) {
    kernel.inputs.push_back(offsetof(GroupedConvArgs, epilogue) + offsetof(EpilogueArgs, bias));
  }
  kernel.outputs = {offsetof(GroupedConvArgs, y)};
  return kernel;
}

}  // namespace

Result<CudaKernel> MakeCudaPool(const PoolSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakePool(spec));
  PoolArgs args{};
  args.walk = WalkOf(spec.window, spec.channels, spec.channels);
  args.kind = static_cast<u32>(KindOf(spec.kind));
  args.pad_bottom = spec.pad_bottom;
  args.pad_right = spec.pad_right;
  CudaKernel kernel =
      KernelLike(cpu, "pool", BodyId::kPool, TilesOf(args.walk.count, kWindowTile), args);
  kernel.inputs = {offsetof(PoolArgs, x)};
  kernel.outputs = {offsetof(PoolArgs, y)};
  return kernel;
}

Result<CudaKernel> MakeCudaDepthwise(const DepthwiseSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeDepthwise(spec));
  GroupedConvArgs args{};
  args.walk = WalkOf(spec.window, spec.channels, spec.channels);
  args.group_inputs = 1;
  args.group_outputs = 1;
  LAGOON_ASSIGN_OR_RETURN(args.epilogue, EpilogueOf("depthwise", spec.epilogue));
  return GroupedKernel("depthwise", args, spec.bias, cpu);
}

Result<CudaKernel> MakeCudaGroupedConv(const GroupedConvSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeGroupedConv(spec));
  GroupedConvArgs args{};
  args.group_inputs = spec.in_channels / spec.groups;
  args.group_outputs = spec.out_channels / spec.groups;
  if (args.group_inputs > kWindowLoadsPerCheck) {
    return Unimplemented("grouped_conv", fmt::format("of {} input channels a group, more than {},",
                                                     args.group_inputs, kWindowLoadsPerCheck));
  }
  args.walk = WalkOf(spec.window, spec.in_channels, spec.out_channels, args.group_inputs);
  LAGOON_ASSIGN_OR_RETURN(args.epilogue, EpilogueOf("grouped_conv", spec.epilogue));
  return GroupedKernel("grouped_conv", args, spec.bias, cpu);
}

std::size_t PackedCudaGroupedWeightBytes(const GroupedConvSpec& spec) {
  return std::size_t{spec.out_channels} * (spec.in_channels / spec.groups) *
         WindowTaps(spec.window) * sizeof(float);
}

void PackCudaGroupedWeights(const GroupedConvSpec& spec, const float* weights, void* packed) {
  const std::size_t inputs = spec.in_channels / spec.groups, outputs = spec.out_channels;
  const std::size_t taps = WindowTaps(spec.window);
  auto* const to = static_cast<float*>(packed);
  for (std::size_t n = 0; n < outputs; ++n) {
    for (std::size_t c = 0; c < inputs; ++c) {
      for (std::size_t tap = 0; tap < taps; ++tap) {
        to[(tap * inputs + c) * outputs + n] = weights[(n * inputs + c) * taps + tap];
      }
    }
  }
}

Result<CudaKernel> MakeCudaMatmul(const MatmulSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeMatmul(spec));
  if (spec.type != DataType::kFloat32)
    return Unimplemented("matmul", fmt::format("of {}", OipName(spec.type)));
  MatmulArgs args{};
  std::vector<WalkAxis> axes;
  std::size_t matrices = 1;
  for (std::size_t i = 0; i < spec.batch.size(); ++i) {
    axes.push_back({spec.batch[i], {spec.a_batch_strides[i], spec.b_batch_strides[i]}});
    matrices *= static_cast<std::size_t>(spec.batch[i]);
  }
  LAGOON_ASSIGN_OR_RETURN(args.batch, AxesOf<2>("matmul", axes));
  args.m = U32(spec.m);
  args.k = U32(spec.k);
  args.n = U32(spec.n);
  args.a_row = static_cast<i64>(spec.a_row_stride);
  args.a_k = static_cast<i64>(spec.a_k_stride);
  args.b_k = static_cast<i64>(spec.b_k_stride);
  args.b_column = static_cast<i64>(spec.b_column_stride);
  args.row_tiles = DivideUp(args.m, kMatmulTile);
  args.column_tiles = DivideUp(args.n, kMatmulTile);
  args.alpha = spec.alpha;
  CudaKernel kernel = KernelLike(cpu, "matmul", BodyId::kMatmul,
                                 U32(matrices) * args.row_tiles * args.column_tiles, args);
  kernel.shared_bytes = kMatmulSharedBytes;
  kernel.inputs = {offsetof(MatmulArgs, a), offsetof(MatmulArgs, b)};
  kernel.outputs = {offsetof(MatmulArgs, y)};
  return kernel;
}

}  // namespace lagoon::cuda
