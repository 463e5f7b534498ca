#include "kernels/cuda/cuda_kernels.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "kernels/cpu_kernels.h"
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/make/make.h"

namespace lagoon::cuda {
namespace {

/// The error for a spec that only the CPU supports. `cpu`: the result of the CPU's factory for that
/// spec.
template <typename Made>
tl::unexpected<Error> NoBody(const Result<Made>& cpu, std::string_view op, DataType type) {
  if (!cpu) return tl::unexpected<Error>(cpu.error());
  return Unimplemented(op, fmt::format("of {}", OipName(type)));
}

class Kernels final : public KernelMaker {
 public:
  Kernels(const Program& program, std::uint32_t multiprocessors)
      : program_(program), multiprocessors_(multiprocessors) {}

  Status CheckPrecision(Precision /*precision*/) const override { return {}; }

  Result<Kernel> Unary(const UnarySpec& spec) const override {
    if (spec.op != UnaryOp::kCopy || spec.type == DataType::kFloat32) {
      return KernelOf(MakeCudaUnary(spec));
    }
    LAGOON_RETURN_IF_ERROR(CpuKernels().Unary(spec));
    return StridedCopy({.out = {static_cast<std::int64_t>(spec.count)},
                        .strides = {1},
                        .element_bytes = SizeOf(spec.type)});
  }
  Result<Kernel> Binary(const BinarySpec& spec) const override {
    return KernelOf(MakeCudaBinary(spec));
  }
  Result<Kernel> Where(const WhereSpec& spec) const override {
    return KernelOf(MakeCudaWhere(spec));
  }
  Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const override {
    return KernelOf(MakeCudaCast(count, from, to));
  }
  Result<Kernel> Quantize(const QuantizeSpec& spec) const override {
    return NoBody(CpuKernels().Quantize(spec), "quantize", spec.quantized);
  }
  Result<Kernel> Dequantize(const QuantizeSpec& spec) const override {
    return NoBody(CpuKernels().Dequantize(spec), "dequantize", spec.quantized);
  }

  Result<Kernel> StridedCopy(const StridedCopySpec& spec) const override {
    return KernelOf(MakeCudaStridedCopy(spec));
  }
  Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> permutation,
                           std::size_t element_bytes) const override {
    return KernelOf(MakeCudaTranspose(dims, permutation, element_bytes));
  }
  Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                        std::size_t element_bytes) const override {
    return KernelOf(MakeCudaConcat(outer, axes, inner, element_bytes));
  }
  Result<TakeKernel> Take(const TakeSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(CudaTake take, MakeCudaTake(spec));
    return TakeKernel{KernelOf(std::move(take.kernel)), std::move(take.table)};
  }
  Result<Kernel> Gather(const IndexSpec& spec) const override {
    return KernelOf(MakeCudaGather(spec));
  }
  Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const override {
    return NoBody(CpuKernels().Scatter(spec, op), "scatter", spec.type);
  }

  Result<Kernel> Softmax(const SoftmaxSpec& spec) const override {
    return KernelOf(MakeCudaSoftmax(spec));
  }
  Result<Kernel> Normalize(const NormalizeSpec& spec) const override {
    return KernelOf(MakeCudaNormalize(spec));
  }
  Result<Kernel> Reduce(const ReduceSpec& spec) const override {
    return KernelOf(MakeCudaReduce(spec));
  }
  Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const override {
    return NoBody(CpuKernels().Fold(spec, op),
                  fmt::format("reduction {}", static_cast<unsigned>(op)), spec.type);
  }
  Result<Kernel> Arg(const ArgSpec& spec) const override {
    return NoBody(CpuKernels().Arg(spec), "arg", spec.axis.type);
  }
  Result<Kernel> Scan(const ScanSpec& spec) const override {
    return NoBody(CpuKernels().Scan(spec), "scan", spec.axis.type);
  }
  Result<Kernel> TopK(const TopKSpec& spec) const override {
    return NoBody(CpuKernels().TopK(spec), "topk", spec.axis.type);
  }
  Result<Kernel> Interpolate(const InterpolateSpec& spec) const override {
    return NoBody(CpuKernels().Interpolate(spec), "interpolate", DataType::kFloat32);
  }
  Result<Kernel> ChannelAffine(const ChannelAffineSpec& spec) const override {
    return KernelOf(MakeCudaChannelAffine(spec));
  }

  Result<Kernel> Pool(const PoolSpec& spec) const override { return KernelOf(MakeCudaPool(spec)); }
  Result<Kernel> WindowPool(const WindowPoolSpec& spec) const override {
    return NoBody(CpuKernels().WindowPool(spec), "window_pool", spec.type);
  }
  Result<Kernel> DirectConv(const DirectConvSpec& spec) const override {
    return NoBody(CpuKernels().DirectConv(spec), "direct_conv", DataType::kFloat32);
  }
  Result<PackedKernel> Conv2d(const Conv2dSpec& spec) const override;
  Result<PackedKernel> Depthwise(const DepthwiseSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(CudaKernel made, MakeCudaDepthwise(spec));
    return PackedKernel{
        KernelOf(std::move(made)), PackedDepthwiseWeightBytes(spec),
        [spec](const float* from, void* to) { PackDepthwiseWeights(spec, from, to); }, kForm};
  }
  Result<PackedKernel> GroupedConv(const GroupedConvSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(CudaKernel made, MakeCudaGroupedConv(spec));
    return PackedKernel{
        KernelOf(std::move(made)), PackedCudaGroupedWeightBytes(spec),
        [spec](const float* from, void* to) { PackCudaGroupedWeights(spec, from, to); }, kForm};
  }
  Result<Kernel> Matmul(const MatmulSpec& spec) const override {
    return KernelOf(MakeCudaMatmul(spec));
  }
  Result<Kernel> Attention(const AttentionSpec& spec) const override {
    return KernelOf(MakeCudaAttention(spec));
  }
  Result<Kernel> Cell(const CellSpec& spec) const override { return KernelOf(MakeCudaCell(spec)); }

 private:
  static constexpr char kForm[] = "cuda";

  Kernel KernelOf(CudaKernel made) const {
    Kernel kernel;
    kernel.name = made.name;
    kernel.cuda = ImageOf(made);
    kernel.blocks = made.blocks;
    kernel.scratch_bytes = made.shared_bytes;
    kernel.args = std::move(made.args);
    kernel.inputs = std::move(made.inputs);
    kernel.outputs = std::move(made.outputs);
    kernel.in_place = std::move(made.in_place);
    kernel.flops = made.flops;
    kernel.bytes_moved = made.bytes_moved;
    return kernel;
  }
  Result<Kernel> KernelOf(Result<CudaKernel> made) const {
    LAGOON_RETURN_IF_ERROR(made);
    return KernelOf(*std::move(made));
  }
  const CudaImage* ImageOf(const CudaKernel& kernel) const;

  const Program& program_;
  const std::uint32_t multiprocessors_;
  mutable Mutex mutex_;
  mutable std::map<BodyId, CudaImage> images_ GUARDED_BY(mutex_);  // of the bodies used so far
};

Result<PackedKernel> Kernels::Conv2d(const Conv2dSpec& spec) const {
  const Math math = spec.precision == Precision::kBf16 ? Math::kBf16 : Math::kFp32;
  LAGOON_ASSIGN_OR_RETURN(
      CudaConv made, MakeCudaConv2d(spec, {.math = math, .multiprocessors = multiprocessors_}));
  PackedKernel packed{
      KernelOf(std::move(made.product)), PackedCudaWeightBytes(spec, math),
      [spec, math](const float* from, void* to) { PackCudaWeights(spec, math, from, to); }, kForm,
      math == Math::kBf16 ? DataType::kBFloat16 : DataType::kFloat32};
  if (made.sum) {
    packed.sum = KernelOf(*std::move(made.sum));
    packed.parts_bytes = made.workspace_bytes;
  }
  return packed;
}

const CudaImage* Kernels::ImageOf(const CudaKernel& kernel) const {
  const MutexLock lock(mutex_);
  const auto [image, is_new] = images_.try_emplace(kernel.body);
  const auto args_bytes = static_cast<std::uint32_t>(kernel.args.size());
  if (is_new) {
    image->second = {&program_, static_cast<std::uint32_t>(kernel.body),
                     static_cast<std::uint32_t>(kernel.entry_class), args_bytes};
  }
  LAGOON_CHECK(image->second.args_bytes == args_bytes);
  return &image->second;
}

}  // namespace

std::unique_ptr<const KernelMaker> CudaKernels(const Program& program,
                                               std::uint32_t multiprocessors) {
  return std::make_unique<Kernels>(program, multiprocessors);
}

}  // namespace lagoon::cuda
