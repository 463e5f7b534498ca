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
    static LAGOON_DEVICE bool Run(u32, const void* args, u32 tile, unsigned char* shared, \
                                  const BlockControl& control) {                          \
      return name##Body(*static_cast<const name##Args*>(args), tile, shared, control);    \
    }                                                                                     \
  };
LAGOON_PLAIN_BODIES(LAGOON_PLAIN_BODY)
#undef LAGOON_PLAIN_BODY

template <typename Sums, u32 kRows, u32 kColumns, u32 kBlocks = kRows == 128 ? 2 : 4>
struct ConvBody {
  static constexpr u32 kThreads = kBodyThreads;
  static constexpr u32 kMinBlocks = kBlocks;
  static LAGOON_DEVICE bool Run(u32, const void* args, u32 tile, unsigned char* shared,
                                const BlockControl& control) {
    return Conv<Sums, kRows, kColumns>(*static_cast<const ConvArgs*>(args), tile, shared, control);
  }
};

template <>
struct OpBody<BodyId::kConv64x64Fp32> : ConvBody<ExactSums, 64, 64, 2> {};
template <>
struct OpBody<BodyId::kConv64x64Tf32> : ConvBody<TensorSums<float, 64, 64, 2>, 64, 64> {};
template <>
struct OpBody<BodyId::kConv64x64Bf16> : ConvBody<TensorSums<Bf16, 64, 64, 2>, 64, 64> {};
template <>
struct OpBody<BodyId::kConv64x64F16> : ConvBody<TensorSums<F16, 64, 64, 2>, 64, 64> {};
template <>
struct OpBody<BodyId::kConv64x32Tf32> : ConvBody<TensorSums<float, 64, 32, 4>, 64, 32> {};
template <>
struct OpBody<BodyId::kConv64x32Bf16> : ConvBody<TensorSums<Bf16, 64, 32, 4>, 64, 32> {};
template <>
struct OpBody<BodyId::kConv64x32F16> : ConvBody<TensorSums<F16, 64, 32, 4>, 64, 32> {};
template <>
struct OpBody<BodyId::kConv128x128Tf32> : ConvBody<TensorSums<float, 128, 128, 2>, 128, 128> {};
template <>
struct OpBody<BodyId::kConv128x128Bf16> : ConvBody<TensorSums<Bf16, 128, 128, 2>, 128, 128> {};
template <>
struct OpBody<BodyId::kConv128x128F16> : ConvBody<TensorSums<F16, 128, 128, 2>, 128, 128> {};

}  // namespace lagoon::cuda
