// Conversions between floats and 8-bit integers.

#include <fmt/format.h>

#include <array>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

QuantizeSpec SpecOf(const Dims& dims, std::int64_t axis, DataType quantized) {
  QuantizeSpec spec;
  spec.quantized = quantized;
  if (axis < 0) {
    spec.inner = static_cast<std::size_t>(ElementCount(dims));
    return spec;
  }
  const auto at = static_cast<std::size_t>(axis);
  const AxisSplit split = SplitAt(dims, at, at);
  spec.outer = split.outer;
  spec.axis = split.axis;
  spec.inner = split.inner;
  return spec;
}

/// The zero point in input `i`, or zeros in the scale's shape.
Result<Tensor> ZeroPoint(ProgramBuilder& builder, const Node& node, std::size_t i, DataType type,
                         const Dims& scale) {
  if (i < node.inputs.size() && node.inputs[i] != kNoValue) {
    return builder.Use(node.inputs[i], Layout::kPlain);
  }
  const Tensor zero = ConstantNumber(builder, type, 0, Dims(scale.size(), 1));
  return EmitExpand(builder, node.name, zero, scale);
}

/// y has x's layout if one scale serves all of x.
Result<Tensor> Quantized(ProgramBuilder& builder, const Node& node, const Tensor& x,
                         const Tensor& scale, const Tensor& zero, std::int64_t axis) {
  const Layout layout = axis < 0 ? x.layout : Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(const Tensor from, builder.Convert(x, layout));
  const Tensor y = builder.NewTensor(node.name, x.dims, layout, zero.type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(
      node.name, [&](auto& make) { return make.Quantize(SpecOf(x.dims, axis, zero.type)); },
      {builder.All(from), builder.All(scale), builder.All(zero)}, {builder.All(y)}));
  return y;
}

}  // namespace

Result<Tensor> EmitQuantize(ProgramBuilder& builder, const Node& node, const Tensor& x,
                            ValueId scale, ValueId zero) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor by, builder.Use(scale, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor point, builder.Use(zero, Layout::kPlain));
  if (ElementCount(by.dims) != 1 || ElementCount(point.dims) != 1) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("scale {} and zero point {} of the output: one number each is supported",
                    ToString(by.dims), ToString(point.dims)));
  }
  return Quantized(builder, node, x, by, point, -1);
}

namespace {

/// The layout in which x is converted: any, if one scale serves all of x.
Layout LayoutToConvert(const ProgramBuilder& builder, const Node& node) {
  if (node.Int("axis", -1) >= 0) return Layout::kPlain;
  return builder.CheapestLayout(std::span(node.inputs).first(1));
}

Status LowerQuantizeLinear(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x,
                          builder.Use(node.inputs[0], LayoutToConvert(builder, node)));
  LAGOON_ASSIGN_OR_RETURN(const Tensor scale, builder.Use(node.inputs[1], Layout::kPlain));
  if (x.type != DataType::kFloat32) {
    return Fail(ErrorCode::kUnimplemented, fmt::format("is not supported on {}", OipName(x.type)));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor zero,
                          ZeroPoint(builder, node, 2, builder.type(node.outputs[0]), scale.dims));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          Quantized(builder, node, x, scale, zero, node.Int("axis", -1)));
  builder.Define(node.outputs[0], y);
  return {};
}

/// (x - zero) * scale with one scale, by kernels that every device has: the same bits.
Result<Tensor> DequantizedInSteps(ProgramBuilder& builder, const Node& node, const Tensor& x,
                                  Tensor scale, Tensor zero) {
  LAGOON_ASSIGN_OR_RETURN(scale, builder.Reshape(scale, {}));
  LAGOON_ASSIGN_OR_RETURN(zero, builder.Reshape(zero, {}));
  LAGOON_ASSIGN_OR_RETURN(zero, EmitCast(builder, node.name, zero, DataType::kFloat32));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitCast(builder, node.name, x, DataType::kFloat32));
  LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kSub, y, zero));
  return EmitBinary(builder, node.name, BinaryOp::kMul, y, scale);
}

Status LowerDequantizeLinear(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x,
                          builder.Use(node.inputs[0], LayoutToConvert(builder, node)));
  LAGOON_ASSIGN_OR_RETURN(Tensor scale, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(scale, EmitCast(builder, node.name, scale, DataType::kFloat32));
  LAGOON_ASSIGN_OR_RETURN(const Tensor zero, ZeroPoint(builder, node, 2, x.type, scale.dims));
  Tensor y;
  if (!builder.options().on_cpu() && ElementCount(scale.dims) == 1) {
    LAGOON_ASSIGN_OR_RETURN(y, DequantizedInSteps(builder, node, x, scale, zero));
  } else {
    y = builder.NewTensor(node.name, x.dims, x.layout);
    LAGOON_RETURN_IF_ERROR(builder.Emit(
        node.name,
        [&](auto& make) { return make.Dequantize(SpecOf(x.dims, node.Int("axis", -1), x.type)); },
        {builder.All(x), builder.All(scale), builder.All(zero)}, {builder.All(y)}));
  }
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, builder.type(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerDynamicQuantizeLinear(ProgramBuilder& builder, const Node& node) {
  const std::array<ValueId, 1> input{node.inputs[0]};
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(input[0], builder.CheapestLayout(input)));
  const auto count = static_cast<std::size_t>(ElementCount(x.dims));
  DynamicQuantizeSpec spec{count, 0};
  std::vector<Operand> inputs{builder.All(x)};
  if (count > kMaxInOneBlock) {
    spec.parts = ExtremesParts({count});
    const Tensor extremes = builder.NewTensor(
        node.name + ".extremes", {static_cast<std::int64_t>(spec.parts), 2}, Layout::kPlain);
    LAGOON_RETURN_IF_ERROR(builder.Emit(node.name + ".extremes",
                                        [&](auto& make) { return make.Extremes({count}); },
                                        {builder.All(x)}, {builder.All(extremes)}));
    inputs.push_back(builder.All(extremes));
  }
  const Tensor results[] = {
      builder.NewTensor(node.name, x.dims, x.layout, DataType::kUInt8),
      builder.NewTensor(node.name + ".scale", {}, Layout::kPlain),
      builder.NewTensor(node.name + ".zero", {}, Layout::kPlain, DataType::kUInt8)};
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) builder.Define(node.outputs[i], results[i]);
  }
  return builder.Emit(node.name, [&](auto& make) { return make.DynamicQuantize(spec); },
                      std::move(inputs),
                      {builder.All(results[0]), builder.All(results[1]), builder.All(results[2])});
}

constexpr Lowering kQuantizeLowerings[] = {
    {"QuantizeLinear", LowerQuantizeLinear},
    {"DequantizeLinear", LowerDequantizeLinear},
    {"DynamicQuantizeLinear", LowerDynamicQuantizeLinear},
};

}  // namespace

std::span<const Lowering> QuantizeLowerings() { return kQuantizeLowerings; }

}  // namespace lagoon
