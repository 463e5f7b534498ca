#pragma once

// The factories of the CUDA bodies: from the same specs as the CPU's, so that one lowering serves
// both. A spec that the CPU's factory refuses is refused in the same words; kUnimplemented names
// what only the CPU has.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/channel_affine.h"
#include "kernels/conv2d.h"
#include "kernels/cuda/args.cuh"
#include "kernels/cuda/body_id.cuh"
#include "kernels/depthwise.h"
#include "kernels/elementwise.h"
#include "kernels/grouped_conv.h"
#include "kernels/index_ops.h"
#include "kernels/matmul.h"
#include "kernels/normalize.h"
#include "kernels/pool.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/shape_ops.h"
#include "kernels/softmax.h"

namespace lagoon::cuda {

/// A body with its arguments, cut into tiles of a block each. `args` has null pointers; `inputs`
/// and `outputs` say where in it the operands' go, in the order of the CPU's factory. Operands are
/// aligned to 16 bytes.
struct CudaKernel {
  const char* name = "";  // static storage
  BodyId body = BodyId::kUnary;
  EntryClass entry_class = EntryClass::kLight;  // the lightest that holds the body
  std::uint32_t blocks = 0;
  std::uint32_t shared_bytes = 0;  // of a block, without the protocol's
  std::vector<std::byte> args;
  std::vector<std::uint32_t> inputs, outputs;
  /// As Kernel::in_place.
  std::vector<std::uint32_t> in_place;
  double flops = 0;
  double bytes_moved = 0;
};

/// fp32 to fp32.
Result<CudaKernel> MakeCudaUnary(const UnarySpec& spec);
Result<CudaKernel> MakeCudaBinary(const BinarySpec& spec);
Result<CudaKernel> MakeCudaStridedCopy(const StridedCopySpec& spec);
Result<CudaKernel> MakeCudaTranspose(std::span<const std::int64_t> dims,
                                     std::span<const std::int64_t> permutation,
                                     std::size_t element_bytes = 4);
Result<CudaKernel> MakeCudaGather(const IndexSpec& spec);
Result<CudaKernel> MakeCudaSoftmax(const SoftmaxSpec& spec);
Result<CudaKernel> MakeCudaNormalize(const NormalizeSpec& spec);
Result<CudaKernel> MakeCudaReduce(const ReduceSpec& spec);
Result<CudaKernel> MakeCudaPool(const PoolSpec& spec);
/// Weights as the CPU's (PackDepthwiseWeights).
Result<CudaKernel> MakeCudaDepthwise(const DepthwiseSpec& spec);
/// At most 64 input channels of a group.
Result<CudaKernel> MakeCudaGroupedConv(const GroupedConvSpec& spec);
std::size_t PackedCudaGroupedWeightBytes(const GroupedConvSpec& spec);
/// `weights`: [out_channels][in_channels / groups][kernel_h][kernel_w].
void PackCudaGroupedWeights(const GroupedConvSpec& spec, const float* weights, void* packed);

Result<CudaKernel> MakeCudaConcat(std::size_t outer, std::span<const std::size_t> axes,
                                  std::size_t inner, std::size_t element_bytes = 4);
/// The kernel and its second input.
struct CudaTake {
  CudaKernel kernel;
  std::vector<std::int64_t> table;
};
Result<CudaTake> MakeCudaTake(const TakeSpec& spec);
Result<CudaKernel> MakeCudaChannelAffine(const ChannelAffineSpec& spec);
/// a and b of fp32.
Result<CudaKernel> MakeCudaWhere(const WhereSpec& spec);
/// Between any two types of numbers.
Result<CudaKernel> MakeCudaCast(std::size_t count, DataType from, DataType to);

/// fp32, exact: no tensor cores.
Result<CudaKernel> MakeCudaMatmul(const MatmulSpec& spec);

/// fp32. kUnimplemented when the depths exceed kMaxAttentionDepth.
Result<CudaKernel> MakeCudaAttention(const AttentionSpec& spec);
Result<CudaKernel> MakeCudaCell(const CellSpec& spec);

/// What Conv2dSpec leaves open here; its own precision is not looked at.
struct ConvOptions {
  Math math = Math::kFp32;
  bool half_y = false;                  // y of the operands' 16-bit type; not with kFp32 and kTf32
  std::uint32_t multiprocessors = 132;  // that the tiles are to fill
  /// For tests: 0 chooses. Rows and columns of a tile: 128x128 (not kFp32), 64x64, 64x32 (not
  /// kFp32).
  std::uint32_t tile_rows = 0, tile_columns = 0;
  std::uint32_t splits = 0;
};

/// A convolution, and when its depth is split the sum of the parts, which comes after it.
struct CudaConv {
  CudaKernel product;  // with `sum`: output 0 is the workspace, and x, weights the inputs
  std::optional<CudaKernel> sum;  // inputs: the workspace, then what is left of the spec's
  std::size_t workspace_bytes = 0;
};

/// Inputs: x, weights, bias and residual (fp32) if the spec has them; x and weights have the type
/// of `math`. Output: y.
Result<CudaConv> MakeCudaConv2d(const Conv2dSpec& spec, const ConvOptions& options);

std::size_t PackedCudaWeightBytes(const Conv2dSpec& spec, Math math);
/// `weights`: [out_channels][in_channels][kernel_h][kernel_w], fp32; rounded to the type of `math`.
void PackCudaWeights(const Conv2dSpec& spec, Math math, const float* weights, void* packed);

}  // namespace lagoon::cuda
