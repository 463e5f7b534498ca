#include <cstddef>

#include "kernels/checks.h"
#include "kernels/cuda/bodies/args.cuh"
#include "kernels/cuda/make/make.h"

namespace lagoon::cuda {
namespace {

u32 PiecesOf(const LineArgs& line) { return DivideUp(line.axis, line.chunk); }

}  // namespace

Result<CudaKernel> MakeCudaSoftmax(const SoftmaxSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeSoftmax(spec));
  SoftmaxArgs args{};
  args.line = LinesOf(spec.outer, spec.axis, spec.inner);
  args.pieces = PiecesOf(args.line);
  args.log = spec.log ? 1 : 0;
  CudaKernel kernel =
      KernelLike(cpu, "softmax", BodyId::kSoftmax, LineGroups(args.line) * args.pieces, args);
  kernel.shared_bytes = kLineSharedBytes;
  kernel.inputs = {offsetof(SoftmaxArgs, x)};
  kernel.outputs = {offsetof(SoftmaxArgs, y)};
  return kernel;
}

Result<CudaKernel> MakeCudaNormalize(const NormalizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeNormalize(spec));
  NormalizeArgs args{};
  args.line = LinesOf(spec.rows, spec.row, 1);
  args.pieces = PiecesOf(args.line);
  args.period = U32(spec.period);
  args.per_row = U32(spec.row / spec.inner);
  args.inner = U32(spec.inner);
  args.epsilon = spec.epsilon;
  args.center = spec.center ? 1 : 0;
  CudaKernel kernel =
      KernelLike(cpu, "normalize", BodyId::kNormalize, LineGroups(args.line) * args.pieces, args);
  kernel.shared_bytes = kLineSharedBytes;
  kernel.inputs = {offsetof(NormalizeArgs, x)};
  if (spec.scale) kernel.inputs.push_back(offsetof(NormalizeArgs, scale));
  if (spec.bias) kernel.inputs.push_back(offsetof(NormalizeArgs, bias));
  kernel.outputs = {offsetof(NormalizeArgs, y)};
  return kernel;
}

Result<CudaKernel> MakeCudaReduce(const ReduceSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeReduce(spec));
  ReduceArgs args{};
  args.line = LinesOf(spec.outer, spec.axis, spec.inner);
  const bool max = spec.op == ReduceOp::kMax, min = spec.op == ReduceOp::kMin;
  args.combine = static_cast<u32>(max ? Combine::kMax : min ? Combine::kMin : Combine::kSum);
  args.factor = spec.op == ReduceOp::kMean ? 1 / static_cast<float>(spec.axis) : 1;
  CudaKernel kernel = KernelLike(cpu, "reduce", BodyId::kReduce, LineGroups(args.line), args);
  kernel.shared_bytes = kLineSharedBytes;
  kernel.inputs = {offsetof(ReduceArgs, x)};
  kernel.outputs = {offsetof(ReduceArgs, y)};
  return kernel;
}

}  // namespace lagoon::cuda
