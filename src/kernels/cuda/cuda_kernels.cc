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

/// The type of a kernel's elements.
template <typename Spec>
DataType TypeOf(const Spec& spec) {
  if constexpr (requires { spec.type; }) {
    return spec.type;
  } else if constexpr (requires { spec.quantized; }) {
    return spec.quantized;
  } else if constexpr (requires { spec.axis.type; }) {
    return spec.axis.type;
  } else {
    return DataType::kFloat32;
  }
}

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

#define LAGOON_MAKER(name, Spec) \
  Result<Kernel> name(const Spec& spec) const override { return KernelOf(MakeCuda##name(spec)); }
  LAGOON_KERNELS(LAGOON_MAKER)
#undef LAGOON_MAKER
#define LAGOON_NO_BODY(name, Spec)                               \
  Result<Kernel> name(const Spec& spec) const override {         \
    return NoBody(CpuKernels().name(spec), #name, TypeOf(spec)); \
  }
  LAGOON_CPU_KERNELS(LAGOON_NO_BODY)
#undef LAGOON_NO_BODY

  Result<Kernel> Unary(const UnarySpec& spec) const override {
    if (spec.op != UnaryOp::kCopy || spec.type == DataType::kFloat32) {
      return KernelOf(MakeCudaUnary(spec));
    }
    LAGOON_RETURN_IF_ERROR(CpuKernels().Unary(spec));
    return StridedCopy({.out = {static_cast<std::int64_t>(spec.count)},
                        .strides = {1},
                        .element_bytes = SizeOf(spec.type)});
  }
  Result<Kernel> Cast(std::size_t count, DataType from, DataType to) const override {
    return KernelOf(MakeCudaCast(count, from, to));
  }

  Result<Kernel> Transpose(std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> permutation,
                           std::size_t element_bytes) const override {
    return KernelOf(MakeCudaTranspose(dims, permutation, element_bytes));
  }
  Result<Kernel> Concat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner,
                        std::size_t element_bytes, const Epilogue& epilogue) const override {
    if (epilogue.activation != Activation::kNone) {
      return Fail(ErrorCode::kUnimplemented, "concat: no body with a function on a GPU");
    }
    return KernelOf(MakeCudaConcat(outer, axes, inner, element_bytes));
  }
  Result<TakeKernel> Take(const TakeSpec& spec) const override {
    LAGOON_ASSIGN_OR_RETURN(CudaTake take, MakeCudaTake(spec));
    return TakeKernel{KernelOf(std::move(take.kernel)), std::move(take.table)};
  }
  Result<Kernel> ScatterTargets(const IndexSpec& spec) const override {
    return NoBody(CpuKernels().ScatterTargets(spec), "ScatterTargets", spec.type);
  }
  Result<Kernel> Scatter(const IndexSpec& spec, ScatterOp op) const override {
    return NoBody(CpuKernels().Scatter(spec, op), "Scatter", spec.type);
  }

  Result<Kernel> Fold(const AxisSpec& spec, FoldOp op) const override {
    return NoBody(CpuKernels().Fold(spec, op),
                  fmt::format("reduction {}", static_cast<unsigned>(op)), spec.type);
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
      [spec, math](const float* from, void* to) { PackCudaWeights(spec, math, from, to); }, kForm};
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
    const auto body = static_cast<std::uint32_t>(kernel.body);
    image->second = {.program = &program_, .body = body, .entry = body, .args_bytes = args_bytes};
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
