#pragma once

// The source of a lowering's kernels: one interface for the bodies of every kind of device.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/status.h"
#include "kernels/conv/conv2d.h"
#include "kernels/ops.h"
#include "kernels/sequence/attention.h"
#include "plan/precision.h"

namespace lagoon {

/// A kernel with its weights in a packed form.
struct PackedKernel {
  Kernel kernel;  // inputs: x, the packed weights, then the factory's other inputs
  std::size_t weight_bytes = 0;
  /// Writes `weight_bytes` bytes, from weights in ONNX's layout.
  std::function<void(const float* weights, void* packed)> pack;
  /// Name of the packed form, which tells different packed forms of the same weights apart: "cpu".
  /// Static storage.
  const char* form = "";
  /// As `pack`, for the weights of a product that lie as [in][out], as a MatMul has them. Empty
  /// where they must be flipped for `pack`.
  std::function<void(const float* weights, void* packed)> pack_flipped = nullptr;

  /// Set if the depth is split: `kernel` then writes partial results, the parts, instead of y, and
  /// this kernel adds them. Inputs: the parts, then those inputs of the factory that come after the
  /// weights; `kernel` does not take these.
  std::optional<Kernel> sum = std::nullopt;
  std::size_t parts_bytes = 0;
};

// clang-format off
/// Kernels that a device makes from one spec: Make##name (CPU) and MakeCuda##name (GPU).
#define LAGOON_KERNELS(KERNEL)                \
  KERNEL(Binary, BinarySpec)                  \
  KERNEL(Where, WhereSpec)                    \
  KERNEL(StridedCopy, StridedCopySpec)        \
  KERNEL(Gather, IndexSpec)                   \
  KERNEL(Softmax, SoftmaxSpec)                \
  KERNEL(Normalize, NormalizeSpec)            \
  KERNEL(Reduce, ReduceSpec)                  \
  KERNEL(ChannelAffine, ChannelAffineSpec)    \
  KERNEL(Pool, PoolSpec)                      \
  KERNEL(Matmul, MatmulSpec)                  \
  KERNEL(Attention, AttentionSpec)            \
  KERNEL(Cell, CellSpec)

/// The same for kernels that GPUs do not have yet.
#define LAGOON_CPU_KERNELS(KERNEL)            \
  KERNEL(Quantize, QuantizeSpec)              \
  KERNEL(Dequantize, QuantizeSpec)            \
  KERNEL(Extremes, ExtremesSpec)              \
  KERNEL(DynamicQuantize, DynamicQuantizeSpec) \
  KERNEL(IntegerLinear, IntegerLinearSpec)    \
  KERNEL(Moments, NormalizeSpec)              \
  KERNEL(Nbits, NbitsSpec)                    \
  KERNEL(NbitsX, NbitsSpec)                   \
  KERNEL(RotateAppend, RotateAppendSpec)      \
  KERNEL(Arg, ArgSpec)                        \
  KERNEL(ArgAmong, ArgSpec)                   \
  KERNEL(Scan, ScanSpec)                      \
  KERNEL(ScanSums, ScanSpec)                  \
  KERNEL(TopK, TopKSpec)                      \
  KERNEL(Interpolate, InterpolateSpec)        \
  KERNEL(RoiAlign, RoiAlignSpec)              \
  KERNEL(GridSample, GridSampleSpec)          \
  KERNEL(WindowPool, WindowPoolSpec)          \
  KERNEL(DirectConv, DirectConvSpec)          \
  KERNEL(CountTrue, CountTrueSpec)            \
  KERNEL(NonZero, NonZeroSpec)                \
  KERNEL(Compress, CompressSpec)              \
  KERNEL(UniqueOrder, UniqueSpec)             \
  KERNEL(UniqueGroups, UniqueSpec)            \
  KERNEL(UniqueTake, UniqueSpec)              \
  KERNEL(NonMaxChoose, NonMaxSpec)            \
  KERNEL(NonMaxGather, NonMaxSpec)
// clang-format on

/// The factories of one kind of device. They take the specs of kernels/*.h; operands come in the
/// order that is documented there. Errors are those of the CPU's factories; kUnimplemented names
/// what the device has no body for. Any thread.
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;

  /// The kUnimplemented message says what the device lacks for `precision`.
  virtual Status CheckPrecision(Precision precision) const = 0;

#define LAGOON_MAKER(name, Spec) virtual Result<Kernel> name(const Spec& spec) const = 0;
  LAGOON_KERNELS(LAGOON_MAKER)
  LAGOON_CPU_KERNELS(LAGOON_MAKER)
#undef LAGOON_MAKER

  // Kernels that need more than a spec, or become one of the others on some devices.
  virtual Result<Kernel> Unary(const UnarySpec& spec) const = 0;
  virtual Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const = 0;
  virtual Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                                   std::span<const std::int64_t> permutation,
                                   std::size_t element_bytes) const = 0;
  virtual Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes,
                                std::size_t inner, std::size_t element_bytes,
                                const Epilogue& epilogue) const = 0;
  virtual Result<TakeKernel> Take(const TakeSpec& spec) const = 0;
  virtual Result<Kernel> ScatterTargets(const IndexSpec& spec) const = 0;
  virtual Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const = 0;
  virtual Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const = 0;

  // Kernels with packed weights.
  virtual Result<PackedKernel> Conv2d(const Conv2dSpec& spec) const = 0;
  virtual Result<PackedKernel> Depthwise(const DepthwiseSpec& spec) const = 0;
  virtual Result<PackedKernel> GroupedConv(const GroupedConvSpec& spec) const = 0;
};

}  // namespace lagoon
