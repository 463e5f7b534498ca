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
  DataType x_type = DataType::kFloat32;  // the type of x that the kernel reads

  /// Set if the depth is split: `kernel` then writes partial results, the parts, instead of y, and
  /// this kernel adds them. Inputs: the parts, then those inputs of the factory that come after the
  /// weights; `kernel` does not take these.
  std::optional<Kernel> sum = std::nullopt;
  std::size_t parts_bytes = 0;
};

/// The factories of one kind of device. They take the specs of kernels/*.h; operands come in the
/// order that is documented there. Errors are those of the CPU's factories; kUnimplemented names
/// what the device has no body for. Any thread.
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;

  /// The kUnimplemented message says what the device lacks for `precision`.
  virtual Status CheckPrecision(Precision precision) const = 0;

  // Elementwise.
  virtual Result<Kernel> Unary(const UnarySpec& spec) const = 0;
  virtual Result<Kernel> Binary(const BinarySpec& spec) const = 0;
  virtual Result<Kernel> Where(const WhereSpec& spec) const = 0;
  virtual Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const = 0;
  virtual Result<Kernel> Quantize(const QuantizeSpec& spec) const = 0;
  virtual Result<Kernel> Dequantize(const QuantizeSpec& spec) const = 0;

  // Moves.
  virtual Result<Kernel> StridedCopy(const StridedCopySpec& spec) const = 0;
  virtual Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                                   std::span<const std::int64_t> permutation,
                                   std::size_t element_bytes) const = 0;
  virtual Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes,
                                std::size_t inner, std::size_t element_bytes) const = 0;
  virtual Result<TakeKernel> Take(const TakeSpec& spec) const = 0;
  virtual Result<Kernel> Gather(const IndexSpec& spec) const = 0;
  virtual Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const = 0;

  // Lines of one axis.
  virtual Result<Kernel> Softmax(const SoftmaxSpec& spec) const = 0;
  virtual Result<Kernel> Normalize(const NormalizeSpec& spec) const = 0;
  virtual Result<Kernel> Reduce(const ReduceSpec& spec) const = 0;
  virtual Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const = 0;
  virtual Result<Kernel> Arg(const ArgSpec& spec) const = 0;
  virtual Result<Kernel> Scan(const ScanSpec& spec) const = 0;
  virtual Result<Kernel> TopK(const TopKSpec& spec) const = 0;
  virtual Result<Kernel> Interpolate(const InterpolateSpec& spec) const = 0;
  virtual Result<Kernel> ChannelAffine(const ChannelAffineSpec& spec) const = 0;

  // Windows and products.
  virtual Result<Kernel> Pool(const PoolSpec& spec) const = 0;
  virtual Result<Kernel> WindowPool(const WindowPoolSpec& spec) const = 0;
  virtual Result<Kernel> DirectConv(const DirectConvSpec& spec) const = 0;
  virtual Result<PackedKernel> Conv2d(const Conv2dSpec& spec) const = 0;
  virtual Result<PackedKernel> Depthwise(const DepthwiseSpec& spec) const = 0;
  virtual Result<PackedKernel> GroupedConv(const GroupedConvSpec& spec) const = 0;
  virtual Result<Kernel> Matmul(const MatmulSpec& spec) const = 0;
  virtual Result<Kernel> Attention(const AttentionSpec& spec) const = 0;
  virtual Result<Kernel> Cell(const CellSpec& spec) const = 0;
};

}  // namespace lagoon
