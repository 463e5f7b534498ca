#include "program/lower/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "plan/element.h"

namespace lagoon {
namespace {

std::size_t CountOf(const Tensor& x) { return static_cast<std::size_t>(ElementCount(x.dims)); }

Dims Broadcast(const Dims& a, const Dims& b) {
  Dims out = a;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = a[i] == 1 ? b[i] : a[i];
  return out;
}

/// Adds leading axes of size one up to `rank`, then moves x to `layout`.
Result<Tensor> AtRank(ProgramBuilder& builder, const Tensor& x, std::size_t rank, Layout layout) {
  LAGOON_CHECK(x.dims.size() <= rank);
  if (x.dims.size() == rank) return builder.Convert(x, layout);
  Dims dims = x.dims;
  dims.insert(dims.begin(), rank - dims.size(), 1);
  LAGOON_ASSIGN_OR_RETURN(const Tensor padded, builder.Reshape(x, dims));
  return builder.Convert(padded, layout);
}

}  // namespace

Status CheckTable(const Dims& sizes) {
  constexpr std::int64_t kMaxTable = std::int64_t{1} << 24;  // 128 MiB of indices
  std::int64_t left = kMaxTable;
  for (const std::int64_t size : sizes) {
    if (size > left) {
      return Fail(
          ErrorCode::kResourceExhausted,
          fmt::format("axes {} need a table of more than {} indices", ToString(sizes), kMaxTable));
    }
    left -= size;
  }
  return {};
}

Tensor ConstantTensor(ProgramBuilder& builder, const std::string& name, DataType type,
                      const Dims& dims, std::vector<std::byte> bytes) {
  LAGOON_CHECK(bytes.size() == static_cast<std::size_t>(ElementCount(dims)) * SizeOf(type));
  Tensor tensor;
  tensor.dims = dims;
  tensor.type = type;
  const std::size_t size = bytes.size();
  tensor.buffer = builder.AddConstant(name, size, [kept = std::move(bytes)](std::byte* to) {
    std::memcpy(to, kept.data(), kept.size());
  });
  return tensor;
}

Tensor ConstantNumber(ProgramBuilder& builder, DataType type, double value, const Dims& dims) {
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    const T element = ConvertElement<T>(value);
    std::vector<std::byte> bytes(sizeof(T));
    std::memcpy(bytes.data(), &element, sizeof(T));
    return ConstantTensor(builder, "number", type, dims, std::move(bytes));
  });
}

Result<Tensor> EmitUnary(ProgramBuilder& builder, const std::string& name, UnaryOp op,
                         const Tensor& x, double alpha, double beta) {
  UnarySpec spec;
  spec.op = op;
  spec.count = CountOf(x);
  spec.alpha = alpha;
  spec.beta = beta;
  spec.type = x.type;
  const Tensor y = builder.NewTensor(name, x.dims, x.layout, ResultType(op, x.type));
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Unary(spec); },
                                      {builder.All(x)}, {builder.All(y)}));
  return y;
}

Result<Tensor> EmitBinary(ProgramBuilder& builder, const std::string& name, BinaryOp op, Tensor a,
                          Tensor b, const Epilogue& epilogue) {
  if (a.type != b.type) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("operands are {} and {}", OipName(a.type), OipName(b.type)));
  }
  const std::size_t rank = std::max(a.dims.size(), b.dims.size());
  const Layout layout = a.dims.size() == rank ? a.layout : b.layout;
  LAGOON_ASSIGN_OR_RETURN(a, AtRank(builder, a, rank, layout));
  LAGOON_ASSIGN_OR_RETURN(b, AtRank(builder, b, rank, layout));
  const Tensor y =
      builder.NewTensor(name, Broadcast(a.dims, b.dims), layout, ResultType(op, a.type));
  BinarySpec spec;
  spec.op = op;
  spec.a = a.physical();
  spec.b = b.physical();
  spec.out = y.physical();
  spec.epilogue = epilogue;
  spec.type = a.type;
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Binary(spec); },
                                      {builder.All(a), builder.All(b)}, {builder.All(y)}));
  return y;
}

Result<Tensor> EmitCast(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                        DataType type) {
  if (x.type == type) return x;
  const Tensor y = builder.NewTensor(name, x.dims, x.layout, type);
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(name, [&](auto& make) { return make.Cast(CountOf(x), x.type, type); },
                   {builder.All(x)}, {builder.All(y)}));
  return y;
}

Result<Tensor> EmitTake(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                        std::vector<std::vector<std::int64_t>> maps, std::uint64_t fill) {
  Dims dims;
  for (const auto& map : maps) dims.push_back(static_cast<std::int64_t>(map.size()));
  std::vector<std::vector<std::int64_t>> physical;
  for (const std::int64_t axis : PhysicalOrder(x.dims.size(), x.layout)) {
    physical.push_back(std::move(maps[static_cast<std::size_t>(axis)]));
  }
  const std::array<Operand, 1> input{builder.All(x)};
  LAGOON_ASSIGN_OR_RETURN(
      TakeKernel take,
      builder.MakerFor(input).Take({x.physical(), std::move(physical), SizeOf(x.type), fill}));
  const Tensor table = ConstantTensor(builder, name + ".table", DataType::kInt64,
                                      {static_cast<std::int64_t>(take.table.size())}, take.table);
  const Tensor y = builder.NewTensor(name, dims, x.layout, x.type);
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(name, std::move(take.kernel), {input[0], builder.All(table)}, {builder.All(y)}));
  return y;
}

Result<Tensor> EmitPadding(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                           std::span<const std::int64_t> begins,
                           std::span<const std::int64_t> ends) {
  Dims padded = x.dims;
  for (std::size_t axis = 0; axis < padded.size(); ++axis)
    padded[axis] += begins[axis] + ends[axis];
  if (padded == x.dims) return x;
  LAGOON_CHECK(x.layout == Layout::kPlain);
  LAGOON_RETURN_IF_ERROR(CheckTable(padded));
  std::vector<std::vector<std::int64_t>> maps(padded.size());
  for (std::size_t axis = 0; axis < padded.size(); ++axis) {
    for (std::int64_t at = -begins[axis]; at < x.dims[axis] + ends[axis]; ++at) {
      maps[axis].push_back(at < x.dims[axis] ? at : -1);
    }
  }
  return EmitTake(builder, name, x, std::move(maps));
}

Result<Tensor> EmitExpand(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                          const Dims& dims) {
  if (x.dims == dims) return x;
  LAGOON_CHECK(x.layout == Layout::kPlain);
  StridedCopySpec spec;
  spec.element_bytes = SizeOf(x.type);
  spec.out = dims;
  spec.strides = BroadcastView(x.dims, dims, spec.element_bytes).strides;
  const Tensor y = builder.NewTensor(name, dims, Layout::kPlain, x.type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.StridedCopy(spec); },
                                      {builder.All(x)}, {builder.All(y)}));
  return y;
}

}  // namespace lagoon
