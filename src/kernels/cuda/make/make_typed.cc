// Elementwise ops on any type: cast, where, and functions of one and two operands that are not
// fp32.

#include <fmt/format.h>

#include <cstddef>

#include "kernels/checks.h"
#include "kernels/cuda/make/make.h"
#include "plan/elementwise_ops.h"

namespace lagoon::cuda {
namespace {

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
  return Unimplemented("an element", fmt::format("of {}", OipName(type)));
}

/// Long functions in double would make up most of an entry, so they are left out.
bool HasDouble(BinaryOp op) {
  return op != BinaryOp::kPow && op != BinaryOp::kMod && op != BinaryOp::kFmod;
}
bool HasDouble(UnaryOp op) { return op == UnaryOp::kIsNaN || op == UnaryOp::kIsInf; }
/// UnaryInteger() of functions.cuh has all that the CPU has, but for this.
bool HasInteger(UnaryOp op) { return op != UnaryOp::kShrink; }

}  // namespace

Result<CudaKernel> MakeTypedUnary(const UnarySpec& spec, const Kernel& cpu) {
  const bool lacks_double = spec.type == DataType::kFloat64 && !HasDouble(spec.op);
  if (lacks_double || (!IsFloat(spec.type) && !HasInteger(spec.op))) {
    return Unimplemented(
        "unary", fmt::format("{} of {}", elementwise::RowOf(spec.op).name, OipName(spec.type)));
  }
  TypedUnaryArgs args{};
  LAGOON_ASSIGN_OR_RETURN(const ElementType type, ElementTypeOf(spec.type));
  args.type = static_cast<u32>(type);
  args.op = static_cast<u32>(spec.op);
  args.count = U32(spec.count);
  args.alpha = static_cast<float>(spec.alpha);
  args.beta = static_cast<float>(spec.beta);
  CudaKernel kernel = ElementKernel("typed_unary", BodyId::kTypedUnary, args, cpu.bytes_moved);
  kernel.inputs = {offsetof(TypedUnaryArgs, x)};
  return kernel;
}

Result<CudaKernel> MakeTypedBinary(const BinarySpec& spec, const Kernel& cpu) {
  if (spec.type == DataType::kFloat64 && !HasDouble(spec.op)) {
    return Unimplemented("binary", fmt::format("{} of FP64", elementwise::RowOf(spec.op).name));
  }
  TypedBinaryArgs args{};
  LAGOON_ASSIGN_OR_RETURN(const ElementType type, ElementTypeOf(spec.type));
  args.type = static_cast<u32>(type);
  args.op = static_cast<u32>(spec.op);
  if (spec.type == DataType::kBool && spec.op == BinaryOp::kMin) {
    args.op = static_cast<u32>(BinaryOp::kAnd);
  } else if (spec.type == DataType::kBool && spec.op == BinaryOp::kMax) {
    args.op = static_cast<u32>(BinaryOp::kOr);
  }
  LAGOON_ASSIGN_OR_RETURN(args.axes,
                          BroadcastAxes<2>("binary", {spec.a, spec.b}, spec.out, args.count));
  CudaKernel kernel = ElementKernel("typed_binary", BodyId::kTypedBinary, args, cpu.bytes_moved);
  kernel.inputs = {offsetof(TypedBinaryArgs, a), offsetof(TypedBinaryArgs, b)};
  return kernel;
}

Result<CudaKernel> MakeCudaWhere(const WhereSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeWhere(spec));
  WhereArgs args{};
  LAGOON_ASSIGN_OR_RETURN(
      args.axes, BroadcastAxes<3>("where", {spec.condition, spec.a, spec.b}, spec.out, args.count));
  args.element_bytes = U32(SizeOf(spec.type));
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
