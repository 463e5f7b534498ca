// Conversions between floats and 8-bit integers with a scale and a zero point.

#include <fmt/format.h>

#include "base/text.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

/// The scale must be one number, or one per element along axis `axis`; the zero point, if any, must
/// have the same shape.
Status CheckScale(OpContext& context) {
  if (!IsFloat(context.input(1).type)) {
    return context.Invalid(fmt::format("scale {} is {}, it must be a float",
                                       Quoted(context.input(1).name),
                                       OipName(context.input(1).type)));
  }
  const Dims& scale = context.dims(1);
  if (context.node().Int("block_size", 0) != 0) {
    return context.Unimplemented("block_size: scales per block are not supported");
  }
  context.EraseAttribute("block_size");
  context.EraseAttribute("saturate");
  if (context.has_input(2) && context.dims(2) != scale) {
    return context.Invalid(fmt::format("scale {} and zero point {} differ in shape",
                                       ToString(scale), ToString(context.dims(2))));
  }
  if (ElementCount(scale) == 1) {
    context.SetAttribute("axis", std::int64_t{-1});  // no axis
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 1), context.rank(0)));
  if (scale != Dims{context.dims(0)[static_cast<std::size_t>(axis)]}) {
    return context.Invalid(fmt::format("scale {} does not fit axis {} of {}", ToString(scale), axis,
                                       ToString(context.dims(0))));
  }
  context.SetAttribute("axis", axis);
  return {};
}

Status InferQuantizeLinear(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.Float32(0));
  LAGOON_RETURN_IF_ERROR(context.Float32(1));
  LAGOON_RETURN_IF_ERROR(CheckScale(context));
  LAGOON_ASSIGN_OR_RETURN(DataType type, context.TypeAttribute("output_dtype", DataType::kUInt8));
  context.EraseAttribute("output_dtype");
  if (context.has_input(2)) type = context.input(2).type;
  context.SetOutput(0, type, context.dims(0));
  return {};
}

Status InferDequantizeLinear(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckScale(context));
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {2}));
  context.SetOutput(0, context.input(1).type, context.dims(0));
  return {};
}

Status InferDynamicQuantizeLinear(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.Float32(0));
  context.SetOutput(0, DataType::kUInt8, context.dims(0));
  context.SetOutput(1, DataType::kFloat32, {});
  context.SetOutput(2, DataType::kUInt8, {});
  return {};
}

constexpr OpSpec kQuantizeOps[] = {
    {"QuantizeLinear", 10, 2, 3, 1, "i:axis i:block_size i:output_dtype i:saturate",
     InferQuantizeLinear},
    {"DequantizeLinear", 10, 2, 3, 1, "i:axis i:block_size", InferDequantizeLinear},
    {"DynamicQuantizeLinear", 11, 1, 1, 3, "", InferDynamicQuantizeLinear},
};

}  // namespace

std::span<const OpSpec> QuantizeOps() { return kQuantizeOps; }

}  // namespace lagoon
