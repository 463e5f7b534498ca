// Ops that choose or join: concat, take, channel affine, where, cast.

#include <fmt/format.h>

#include <cstddef>

#include "kernels/checks.h"
#include "kernels/cuda/make.h"
#include "kernels/rows.h"

namespace lagoon::cuda {
namespace {

static_assert(kMaxConcatParts == kMaxConcatInputs && kMaxChannelParts == kMaxAffineParts);

template <typename Args>
CudaKernel ElementKernel(const char* name, BodyId body, const Args& args, double bytes_moved) {
  CudaKernel kernel;
  kernel.name = name;
  kernel.body = body;
  kernel.blocks = TilesOf(args.count, kElementTile);
  kernel.args = ArgsImage(args);
  kernel.outputs = {offsetof(Args, y)};
  kernel.bytes_moved = bytes_moved;
  return kernel;
}

Result<ElementType> ElementTypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return ElementType::kF32;
    case DataType::kBFloat16:
      return ElementType::kBf16;
    case DataType::kFloat16:
      return ElementType::kF16;
    case DataType::kFloat64:
      return ElementType::kF64;
    case DataType::kBool:
      return ElementType::kBool;
    case DataType::kInt8:
      return ElementType::kI8;
    case DataType::kInt16:
      return ElementType::kI16;
    case DataType::kInt32:
      return ElementType::kI32;
    case DataType::kInt64:
      return ElementType::kI64;
    case DataType::kUInt8:
      return ElementType::kU8;
    case DataType::kUInt16:
      return ElementType::kU16;
    case DataType::kUInt32:
      return ElementType::kU32;
    case DataType::kUInt64:
      return ElementType::kU64;
    case DataType::kString:
      break;
  }
  return Unimplemented("cast", fmt::format("of {}", OipName(type)));
}

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

Result<CudaKernel> MakeCudaWhere(const WhereSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeWhere(spec));
  if (spec.type != DataType::kFloat32)
    return Unimplemented("where", fmt::format("of {}", OipName(spec.type)));
  WhereArgs args{};
  const auto strides = [&](const std::vector<std::int64_t>& dims) {
    return BroadcastView(dims, spec.out, sizeof(float)).strides;
  };
  const auto condition = strides(spec.condition), a = strides(spec.a), b = strides(spec.b);
  std::vector<WalkAxis> axes;
  std::size_t count = 1;
  for (std::size_t i = 0; i < spec.out.size(); ++i) {
    axes.push_back({spec.out[i], {condition[i], a[i], b[i]}});
    count *= static_cast<std::size_t>(spec.out[i]);
  }
  LAGOON_ASSIGN_OR_RETURN(args.axes, AxesOf<3>("where", axes));
  args.count = U32(count);
  CudaKernel kernel = ElementKernel("where", BodyId::kWhere, args, cpu.bytes_moved);
  kernel.inputs = {offsetof(WhereArgs, condition), offsetof(WhereArgs, a), offsetof(WhereArgs, b)};
  return kernel;
}

Result<CudaKernel> MakeCudaCast(std::size_t count, DataType from, DataType to) {
  LAGOON_RETURN_IF_ERROR(MakeCast(count, from, to));
  CastArgs args{};
  LAGOON_ASSIGN_OR_RETURN(const ElementType x, ElementTypeOf(from));
  LAGOON_ASSIGN_OR_RETURN(const ElementType y, ElementTypeOf(to));
  args.from = static_cast<u32>(x);
  args.to = static_cast<u32>(y);
  args.count = U32(count);
  CudaKernel kernel =
      ElementKernel("cast", BodyId::kCast, args,
                    static_cast<double>(count) * static_cast<double>(SizeOf(from) + SizeOf(to)));
  kernel.inputs = {offsetof(CastArgs, x)};
  return kernel;
}

}  // namespace lagoon::cuda
