#pragma once

// The entry classes: each one is a switch over its bodies.

#include "device/cuda/gpu/entry.cuh"
#include "kernels/cuda/bodies/attention.cuh"
#include "kernels/cuda/bodies/body_id.cuh"
#include "kernels/cuda/bodies/cell.cuh"
#include "kernels/cuda/bodies/conv.cuh"
#include "kernels/cuda/bodies/elementwise.cuh"
#include "kernels/cuda/bodies/lines.cuh"
#include "kernels/cuda/bodies/matmul.cuh"
#include "kernels/cuda/bodies/typed.cuh"
#include "kernels/cuda/bodies/windows.cuh"

namespace lagoon::cuda {

template <typename Args>
LAGOON_DEVICE const Args& As(const void* args) {
  return *static_cast<const Args*>(args);
}

/// False if a guard revoked the block, and also for an id that is not in the class, which the host
/// never passes.
LAGOON_DEVICE bool RunLight(BodyId body, const void* args, u32 tile, unsigned char* shared,
                            const BlockControl& control) {
  switch (body) {
    case BodyId::kUnary:
      return Unary(As<UnaryArgs>(args), tile, control);
    case BodyId::kBinary:
      return BinaryElements(As<BinaryArgs>(args), tile, control);
    case BodyId::kStridedCopy:
      return StridedCopy(As<StridedCopyArgs>(args), tile, control);
    case BodyId::kFlip:
      return Flip(As<FlipArgs>(args), tile, shared, control);
    case BodyId::kGather:
      return Gather(As<GatherArgs>(args), tile, control);
    case BodyId::kSoftmax:
      return Softmax(As<SoftmaxArgs>(args), tile, shared, control);
    case BodyId::kNormalize:
      return Normalize(As<NormalizeArgs>(args), tile, shared, control);
    case BodyId::kReduce:
      return Reduce(As<ReduceArgs>(args), tile, shared, control);
    case BodyId::kPool:
      return PoolWindows(As<PoolArgs>(args), tile, control);
    case BodyId::kGroupedConv:
      return GroupedConv(As<GroupedConvArgs>(args), tile, control);
    case BodyId::kMatmul:
      return Matmul(As<MatmulArgs>(args), tile, shared, control);
    case BodyId::kSplitSum:
      return SplitSum(As<SplitSumArgs>(args), tile, control);
    case BodyId::kAttention:
      return Attention(As<AttentionArgs>(args), tile, shared, control);
    case BodyId::kCell:
      return CellStep(As<CellArgs>(args), tile, control);
    case BodyId::kConcat:
      return Concat(As<ConcatArgs>(args), tile, control);
    case BodyId::kTake:
      return Take(As<TakeArgs>(args), tile, control);
    case BodyId::kChannelAffine:
      return ChannelAffine(As<ChannelAffineArgs>(args), tile, control);
    case BodyId::kWhere:
      return Where(As<WhereArgs>(args), tile, control);
    case BodyId::kCast:
      return Cast(As<CastArgs>(args), tile, control);
    case BodyId::kTypedUnary:
      return TypedUnary(As<TypedUnaryArgs>(args), tile, control);
    case BodyId::kTypedBinary:
      return TypedBinary(As<TypedBinaryArgs>(args), tile, control);
    default:
      return false;
  }
}

LAGOON_DEVICE bool RunMedium(BodyId body, const void* args, u32 tile, unsigned char* shared,
                             const BlockControl& control) {
  const ConvArgs& conv = As<ConvArgs>(args);
  switch (body) {
    case BodyId::kConv64x64Fp32:
      return Conv<ExactSums, 64, 64>(conv, tile, shared, control);
    case BodyId::kConv64x64Tf32:
      return Conv<TensorSums<float, 64, 64, 2>, 64, 64>(conv, tile, shared, control);
    case BodyId::kConv64x64Bf16:
      return Conv<TensorSums<Bf16, 64, 64, 2>, 64, 64>(conv, tile, shared, control);
    case BodyId::kConv64x64F16:
      return Conv<TensorSums<F16, 64, 64, 2>, 64, 64>(conv, tile, shared, control);
    case BodyId::kConv64x32Tf32:
      return Conv<TensorSums<float, 64, 32, 4>, 64, 32>(conv, tile, shared, control);
    case BodyId::kConv64x32Bf16:
      return Conv<TensorSums<Bf16, 64, 32, 4>, 64, 32>(conv, tile, shared, control);
    case BodyId::kConv64x32F16:
      return Conv<TensorSums<F16, 64, 32, 4>, 64, 32>(conv, tile, shared, control);
    default:
      return RunLight(body, args, tile, shared, control);
  }
}

LAGOON_DEVICE bool RunHeavy(BodyId body, const void* args, u32 tile, unsigned char* shared,
                            const BlockControl& control) {
  const ConvArgs& conv = As<ConvArgs>(args);
  switch (body) {
    case BodyId::kConv128x128Tf32:
      return Conv<TensorSums<float, 128, 128, 2>, 128, 128>(conv, tile, shared, control);
    case BodyId::kConv128x128Bf16:
      return Conv<TensorSums<Bf16, 128, 128, 2>, 128, 128>(conv, tile, shared, control);
    case BodyId::kConv128x128F16:
      return Conv<TensorSums<F16, 128, 128, 2>, 128, 128>(conv, tile, shared, control);
    default:
      return RunMedium(body, args, tile, shared, control);
  }
}

struct LightBodies {
  static constexpr u32 kThreads = kBodyThreads;
  static constexpr u32 kMinBlocks = 4;

  static LAGOON_DEVICE bool Run(u32 body, const void* args, u32 tile, unsigned char* shared,
                                const BlockControl& control) {
    return RunLight(static_cast<BodyId>(body), args, tile, shared, control);
  }
};

struct MediumBodies {
  static constexpr u32 kThreads = kBodyThreads;
  static constexpr u32 kMinBlocks = 4;

  static LAGOON_DEVICE bool Run(u32 body, const void* args, u32 tile, unsigned char* shared,
                                const BlockControl& control) {
    return RunMedium(static_cast<BodyId>(body), args, tile, shared, control);
  }
};

struct HeavyBodies {
  static constexpr u32 kThreads = kBodyThreads;
  static constexpr u32 kMinBlocks = 2;

  static LAGOON_DEVICE bool Run(u32 body, const void* args, u32 tile, unsigned char* shared,
                                const BlockControl& control) {
    return RunHeavy(static_cast<BodyId>(body), args, tile, shared, control);
  }
};

}  // namespace lagoon::cuda
