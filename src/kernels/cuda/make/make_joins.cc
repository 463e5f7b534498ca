// Ops that join: concat, take, channel affine.

#include <cstddef>

#include "kernels/checks.h"
#include "kernels/cuda/make/make.h"

namespace lagoon::cuda {
namespace {

static_assert(kMaxConcatParts == kMaxConcatInputs && kMaxChannelParts == kMaxAffineParts);

}  // namespace

Result<CudaKernel> MakeCudaConcat(std::size_t outer, std::span<const std::size_t> axes,
                                  std::size_t inner, std::size_t element_bytes) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeConcat(outer, axes, inner, element_bytes));
  ConcatArgs args{};
  args.parts = U32(axes.size());
  std::size_t end = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) args.ends[i] = U32(end += axes[i]);
  args.inner = U32(inner);
  args.count = U32(outer * end * inner);
  args.element_bytes = U32(element_bytes);
  CudaKernel kernel = ElementKernel("concat", BodyId::kConcat, args, cpu.bytes_moved);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    kernel.inputs.push_back(U32(offsetof(ConcatArgs, x) + i * sizeof(void*)));
  }
  return kernel;
}

Result<CudaTake> MakeCudaTake(const TakeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const TakeKernel cpu, MakeTake(spec));
  TakeArgs args{};
  CudaTake take;
  args.rank = U32(spec.dims.size());
  std::vector<std::int64_t> strides(spec.dims.size(), 1);
  for (std::size_t i = spec.dims.size(); i-- > 1;) strides[i - 1] = strides[i] * spec.dims[i];
  std::size_t count = 1;
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    args.dims[i] = U32(spec.maps[i].size());
    args.begin[i] = U32(take.table.size());
    count *= spec.maps[i].size();
    for (const std::int64_t index : spec.maps[i]) {
      take.table.push_back(index < 0 ? -1 : index * strides[i]);
    }
  }
  args.count = U32(count);
  args.element_bytes = U32(spec.element_bytes);
  args.fill = spec.fill;
  take.kernel = ElementKernel("take", BodyId::kTake, args, cpu.kernel.bytes_moved);
  take.kernel.inputs = {offsetof(TakeArgs, x), offsetof(TakeArgs, table)};
  return take;
}

Result<CudaKernel> MakeCudaChannelAffine(const ChannelAffineSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeChannelAffine(spec));
  ChannelAffineArgs args{};
  LAGOON_ASSIGN_OR_RETURN(args.epilogue, EpilogueOf("channel_affine", spec.epilogue));
  args.parts = U32(spec.channels.size());
  std::size_t end = 0;
  for (std::size_t i = 0; i < spec.channels.size(); ++i) {
    args.ends[i] = U32(end += spec.channels[i]);
  }
  args.count = U32(spec.rows * end);
  CudaKernel kernel =
      ElementKernel("channel_affine", BodyId::kChannelAffine, args, cpu.bytes_moved);
  kernel.inputs = {offsetof(ChannelAffineArgs, scale), offsetof(ChannelAffineArgs, shift)};
  for (std::size_t i = 0; i < spec.channels.size(); ++i) {
    kernel.inputs.push_back(U32(offsetof(ChannelAffineArgs, x) + i * sizeof(float*)));
  }
  return kernel;
}

}  // namespace lagoon::cuda
