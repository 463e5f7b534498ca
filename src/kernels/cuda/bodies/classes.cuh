#pragma once

// The entry classes: each one is a switch over its bodies.

#include "device/cuda/gpu/entry.cuh"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/bodies/attention.cuh"
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

/// Returns false if a guard revoked the block, and for an id that is not in the class, which the
/// host never passes.
LAGOON_DEVICE bool RunLight(BodyId body, const void* args, u32 tile, unsigned char* shared,
                            const BlockControl& control) {
#define LAGOON_RUN_BODY(name) \
  case BodyId::k##name:       \
    return name##Body(As<name##Args>(args), tile, shared, control);
  switch (body) {
    LAGOON_LIGHT_BODIES(LAGOON_RUN_BODY)
    default:
      return false;
  }
#undef LAGOON_RUN_BODY
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
