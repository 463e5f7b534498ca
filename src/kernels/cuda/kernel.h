#pragma once

// The factories of the CUDA bodies. They take the same specs as the CPU's factories, so that one
// lowering serves both. A spec that the CPU's factory refuses gives the same error; kUnimplemented
// names what only the CPU supports.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/kernel_maker.h"

namespace lagoon::cuda {

/// A body with its arguments, cut into tiles of one block each. `args` has null pointers; `inputs`
/// and `outputs` are the offsets of the operands' pointers in `args`, in the order of the CPU's
/// factory. Operands are aligned to 16 bytes.
struct CudaKernel {
  const char* name = "";  // static storage
  BodyId body = BodyId::kUnary;
  std::uint32_t blocks = 0;
  std::uint32_t shared_bytes = 0;  // per block, without the protocol's share
  std::vector<std::byte> args;
  std::vector<std::uint32_t> inputs, outputs;
  /// As Kernel::in_place.
  std::vector<std::uint32_t> in_place;
  double flops = 0;
  double bytes_moved = 0;
};

#define LAGOON_CUDA_FACTORY(name, Spec) Result<CudaKernel> MakeCuda##name(const Spec& spec);
LAGOON_KERNELS(LAGOON_CUDA_FACTORY)
#undef LAGOON_CUDA_FACTORY

Result<CudaKernel> MakeCudaUnary(const UnarySpec& spec);
Result<CudaKernel> MakeCudaTranspose(std::span<const std::int64_t> dims,
                                     std::span<const std::int64_t> permutation,
                                     std::size_t element_bytes = 4);
/// Weights are packed as for the CPU (PackDepthwiseWeights).
Result<CudaKernel> MakeCudaDepthwise(const DepthwiseSpec& spec);
/// At most 64 input channels per group.
Result<CudaKernel> MakeCudaGroupedConv(const GroupedConvSpec& spec);
std::size_t PackedCudaGroupedWeightBytes(const GroupedConvSpec& spec);
/// `weights`: [out_channels][in_channels / groups][kernel_h][kernel_w].
void PackCudaGroupedWeights(const GroupedConvSpec& spec, const float* weights, void* packed);

Result<CudaKernel> MakeCudaConcat(std::size_t outer, std::span<const std::size_t> axes,
                                  std::size_t inner, std::size_t element_bytes = 4);
/// The kernel and the table that is its second input.
struct CudaTake {
  CudaKernel kernel;
  std::vector<std::int64_t> table;
};
Result<CudaTake> MakeCudaTake(const TakeSpec& spec);
/// Between any two numeric types.
Result<CudaKernel> MakeCudaCast(std::size_t count, DataType from, DataType to);

/// The choices that Conv2dSpec leaves open for a GPU. Conv2dSpec::precision is ignored.
struct ConvOptions {
  Math math = Math::kFp32;
  std::uint32_t multiprocessors = 132;  // the tiles should fill these
  /// For tests; 0: the factory chooses. Rows and columns of a tile: 128x128, 64x64 or 32x32.
  std::uint32_t tile_rows = 0, tile_columns = 0;
  std::uint32_t splits = 0;
};

/// A convolution. If its depth is split, `sum` adds the parts afterwards.
struct CudaConv {
  /// With `sum`: output 0 is the workspace, and the inputs are x and weights.
  CudaKernel product;
  std::optional<CudaKernel> sum;  // inputs: the workspace, then the other inputs
  std::size_t workspace_bytes = 0;
};

/// Inputs: x, weights packed for `math`, then bias and residual if the spec has them. Output: y.
/// All but the weights are fp32.
Result<CudaConv> MakeCudaConv2d(const Conv2dSpec& spec, const ConvOptions& options);

std::size_t PackedCudaWeightBytes(const Conv2dSpec& spec, Math math);
/// `weights`: fp32 [out_channels][in_channels][kernel_h][kernel_w], which are rounded to the type
/// of `math`.
void PackCudaWeights(const Conv2dSpec& spec, Math math, const float* weights, void* packed);

}  // namespace lagoon::cuda
