#include "kernels/cpu_kernels.h"

#include <utility>

#include "kernels/conv/bf16/bf16_unit.h"
#include "kernels/conv/conv2d_tiling.h"

namespace lagoon {
namespace {

class Cpu final : public KernelMaker {
 public:
  Status CheckPrecision(Precision precision) const override {
    return lagoon::CheckPrecision(precision);
  }
#define LAGOON_MAKER(name, Spec) \
  Result<Kernel> name(const Spec& spec) const override { return Make##name(spec); }
  LAGOON_KERNELS(LAGOON_MAKER)
  LAGOON_CPU_KERNELS(LAGOON_MAKER)
#undef LAGOON_MAKER
  Result<Kernel> Unary(const UnarySpec& spec) const override { return MakeUnary(spec); }
  Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const override {
    return MakeCast(count, from, to);
  }
  Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> permutation,
                           std::size_t element_bytes) const override {
    return MakeTranspose(dims, permutation, element_bytes);
  }
  Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                        std::size_t element_bytes, const Epilogue& epilogue) const override {
    return MakeConcat(outer, axes, inner, element_bytes, epilogue);
  }
  Result<TakeKernel> Take(const TakeSpec& spec) const override { return MakeTake(spec); }
  Result<Kernel> ScatterTargets(const IndexSpec& spec) const override {
    return MakeScatterTargets(spec);
  }
  Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const override {
    return MakeScatter(spec, op);
  }
  Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const override { return MakeFold(spec, op); }

  Result<PackedKernel> Conv2d(const Conv2dSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(Kernel kernel, MakeConv2d(spec));
    PackedKernel packed{std::move(kernel), PackedConv2dWeightBytes(spec),
                        [spec](const float* from, void* to) { PackConv2dWeights(spec, from, to); },
                        IsGemv(spec) ? "cpu, one pixel" : kForm};
    if (PacksFlipped(spec)) {
      packed.pack_flipped = [spec](const float* from, void* to) {
        PackFlippedConv2dWeights(spec, from, to);
      };
    }
    return packed;
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
