#pragma once

// Every body as a struct, from which LAGOON_CUDA_ENTRY makes an entry kernel of its own.

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

template <BodyId kId>
struct OpBody;

#define LAGOON_PLAIN_BODY(name)                                                           \
  template <>                                                                             \
  struct OpBody<BodyId::k##name> {                                                        \
    static constexpr u32 kThreads = kBodyThreads;                                         \
    static constexpr u32 kMinBlocks = 3;                                                  \
    static constexpr u32 kArgsBytes = sizeof(name##Args);                                 \
    static LAGOON_DEVICE bool Run(u32, const void* args, u32 tile, unsigned char* shared, \
                                  const BlockControl& control) {                          \
      return name##Body(*static_cast<const name##Args*>(args), tile, shared, control);    \
    }                                                                                     \
  };
LAGOON_PLAIN_BODIES(LAGOON_PLAIN_BODY)
#undef LAGOON_PLAIN_BODY

template <typename Sums>
struct ConvBody {
  static constexpr u32 kThreads = kBodyThreads;
  static constexpr u32 kMinBlocks = 2;
  static constexpr u32 kArgsBytes = sizeof(ConvArgs);
  static LAGOON_DEVICE bool Run(u32, const void* args, u32 tile, unsigned char* shared,
                                const BlockControl& control) {
    return Conv<Sums>(*static_cast<const ConvArgs*>(args), tile, shared, control);
  }
};

template <>
struct OpBody<BodyId::kConv128x128Fp32> : ConvBody<ExactSums<kTile128x128Fp32, 4>> {};
template <>
struct OpBody<BodyId::kConv64x64Fp32> : ConvBody<ExactSums<kTile64x64Fp32, 2>> {};
template <>
struct OpBody<BodyId::kConv32x32Fp32> : ConvBody<ExactSums<kTile32x32Fp32, 1>> {};
template <>
struct OpBody<BodyId::kConv128x128Bf16> : ConvBody<RoundedSums<kTile128x128Bf16, 2>> {};
template <>
struct OpBody<BodyId::kConv64x64Bf16> : ConvBody<RoundedSums<kTile64x64Bf16, 2>> {};
template <>
struct OpBody<BodyId::kConv32x32Bf16> : ConvBody<RoundedSums<kTile32x32Bf16, 1>> {};

}  // namespace lagoon::cuda
