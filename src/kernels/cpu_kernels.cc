#include "kernels/cpu_kernels.h"

#include <utility>

#include "kernels/conv/bf16/bf16_unit.h"

namespace lagoon {
namespace {

class Cpu final : public KernelMaker {
 public:
  Status CheckPrecision(Precision precision) const override {
    return lagoon::CheckPrecision(precision);
  }
  Result<Kernel> Unary(const UnarySpec& spec) const override { return MakeUnary(spec); }
  Result<Kernel> Binary(const BinarySpec& spec) const override { return MakeBinary(spec); }
  Result<Kernel> Where(const WhereSpec& spec) const override { return MakeWhere(spec); }
  Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const override {
    return MakeCast(count, from, to);
  }
  Result<Kernel> Quantize(const QuantizeSpec& spec) const override { return MakeQuantize(spec); }
  Result<Kernel> Dequantize(const QuantizeSpec& spec) const override {
    return MakeDequantize(spec);
  }
  Result<Kernel> StridedCopy(const StridedCopySpec& spec) const override {
    return MakeStridedCopy(spec);
  }
  Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> permutation,
                           std::size_t element_bytes) const override {
    return MakeTranspose(dims, permutation, element_bytes);
  }
  Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                        std::size_t element_bytes) const override {
    return MakeConcat(outer, axes, inner, element_bytes);
  }
  Result<TakeKernel> Take(const TakeSpec& spec) const override { return MakeTake(spec); }
  Result<Kernel> Gather(const IndexSpec& spec) const override { return MakeGather(spec); }
  Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const override {
    return MakeScatter(spec, op);
  }
  Result<Kernel> Softmax(const SoftmaxSpec& spec) const override { return MakeSoftmax(spec); }
  Result<Kernel> Normalize(const NormalizeSpec& spec) const override { return MakeNormalize(spec); }
  Result<Kernel> Reduce(const ReduceSpec& spec) const override { return MakeReduce(spec); }
  Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const override { return MakeFold(spec, op); }
  Result<Kernel> Arg(const ArgSpec& spec) const override { return MakeArg(spec); }
  Result<Kernel> Scan(const ScanSpec& spec) const override { return MakeScan(spec); }
  Result<Kernel> TopK(const TopKSpec& spec) const override { return MakeTopK(spec); }
  Result<Kernel> Interpolate(const InterpolateSpec& spec) const override {
    return MakeInterpolate(spec);
  }
  Result<Kernel> ChannelAffine(const ChannelAffineSpec& spec) const override {
    return MakeChannelAffine(spec);
  }
  Result<Kernel> Pool(const PoolSpec& spec) const override { return MakePool(spec); }
  Result<Kernel> WindowPool(const WindowPoolSpec& spec) const override {
    return MakeWindowPool(spec);
  }
  Result<Kernel> DirectConv(const DirectConvSpec& spec) const override {
    return MakeDirectConv(spec);
  }
  Result<Kernel> Matmul(const MatmulSpec& spec) const override { return MakeMatmul(spec); }
  Result<Kernel> Attention(const AttentionSpec& spec) const override { return MakeAttention(spec); }
  Result<Kernel> Cell(const CellSpec& spec) const override { return MakeCell(spec); }

  Result<PackedKernel> Conv2d(const Conv2dSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(Kernel kernel, MakeConv2d(spec));
    return PackedKernel{std::move(kernel), PackedConv2dWeightBytes(spec),
                        [spec](const float* from, void* to) { PackConv2dWeights(spec, from, to); },
                        kForm};
  }
  Result<PackedKernel> Depthwise(const DepthwiseSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(Kernel kernel, MakeDepthwise(spec));
    return PackedKernel{
        std::move(kernel), PackedDepthwiseWeightBytes(spec),
        [spec](const float* from, void* to) { PackDepthwiseWeights(spec, from, to); }, kForm};
  }
  Result<PackedKernel> GroupedConv(const GroupedConvSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(Kernel kernel, MakeGroupedConv(spec));
    return PackedKernel{
        std::move(kernel), PackedGroupedConvWeightBytes(spec),
        [spec](const float* from, void* to) { PackGroupedConvWeights(spec, from, to); }, kForm};
  }

 private:
  static constexpr char kForm[] = "cpu";
};

}  // namespace

const KernelMaker& CpuKernels() {
  static const Cpu cpu;
  return cpu;
}

}  // namespace lagoon
