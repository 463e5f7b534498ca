// Values without elements: what nodes compute from them. No kernel reads or writes such a value.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "plan/element.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

bool IsEmpty(const ProgramBuilder& builder, ValueId value) {
  return value != kNoValue && ElementCount(builder.dims(value)) == 0;
}

/// Defines output 0 as a constant of equal elements.
Status DefineFilled(ProgramBuilder& builder, const Node& node, double number) {
  const ValueId output = node.outputs[0];
  const Tensor one =
      ConstantNumber(builder, builder.type(output), number, Dims(builder.dims(output).size(), 1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          EmitExpand(builder, node.name, one, builder.dims(output)));
  builder.Define(output, y);
  return {};
}

/// The result of a reduction of nothing: its neutral element.
Status LowerReduction(ProgramBuilder& builder, const Node& node) {
  const DataType type = builder.type(node.outputs[0]);
  const double infinity = std::numeric_limits<double>::infinity();
  if (node.op == "ReduceProd") return DefineFilled(builder, node, 1);
  if (node.op == "ReduceMin") return DefineFilled(builder, node, infinity);
  if (node.op == "ReduceMax" && type == DataType::kBool) return DefineFilled(builder, node, 0);
  if (node.op == "ReduceMax" || node.op == "ReduceLogSum" || node.op == "ReduceLogSumExp") {
    return DefineFilled(builder, node, -infinity);
  }
  if (node.op != "ReduceMean") return DefineFilled(builder, node, 0);
  if (IsFloat(type)) return DefineFilled(builder, node, std::nan(""));
  return Fail(ErrorCode::kInvalidArgument, "the mean of no integers is not defined");
}

/// A product over an axis without elements is zero.
Status LowerProduct(ProgramBuilder& builder, const Node& node) {
  LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  if (node.op != "Gemm" || node.inputs.size() < 3 || node.inputs[2] == kNoValue) {
    return DefineFilled(builder, node, 0);
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor y, builder.Use(node.inputs[2], Layout::kPlain));
  const double beta = node.Float("beta", 1);
  if (beta != 1) {
    const Tensor factor = ConstantNumber(builder, y.type, beta);
    LAGOON_ASSIGN_OR_RETURN(y, EmitBinary(builder, node.name, BinaryOp::kMul, y, factor));
  }
  LAGOON_ASSIGN_OR_RETURN(y, EmitExpand(builder, node.name, y, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerPadding(ProgramBuilder& builder, const Node& node) {
  const auto value = node.attributes.find("value");
  const auto* constant =
      value == node.attributes.end() ? nullptr : std::get_if<Constant>(&value->second);
  if (constant == nullptr) return DefineFilled(builder, node, 0);
  Tensor one = ConstantTensor(builder, node.name + ".value", constant->type,
                              Dims(builder.dims(node.outputs[0]).size(), 1), *constant->bytes);
  LAGOON_ASSIGN_OR_RETURN(one, EmitExpand(builder, node.name, one, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], one);
  return {};
}

/// Nothing is written: the output is input 0.
Status LowerCopy(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  builder.Define(node.outputs[0], x);
  return {};
}

bool IsOneOf(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// A node with outputs that have elements, and an input that has none.
Status LowerFromNothing(ProgramBuilder& builder, const Node& node) {
  if (node.op.starts_with("Reduce")) return LowerReduction(builder, node);
  if (IsOneOf(node.op, {"MatMul", "Gemm", "Einsum", "Attention"})) {
    return LowerProduct(builder, node);
  }
  if (node.op == "Pad") return LowerPadding(builder, node);
  const bool scatters = IsOneOf(node.op, {"ScatterElements", "ScatterND"});
  if (scatters && !IsEmpty(builder, node.inputs[0])) return LowerCopy(builder, node);
  const auto empty = std::find_if(node.inputs.begin(), node.inputs.end(),
                                  [&](ValueId id) { return IsEmpty(builder, id); });
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("input '{}' has shape {}: nothing can be computed from no elements",
                          builder.graph().value(*empty).name, ToString(builder.dims(*empty))));
}

}  // namespace

Status LowerEmpty(ProgramBuilder& builder, Node node, LowerFunction otherwise) {
  bool computes = false;
  for (ValueId& output : node.outputs) {
    if (output == kNoValue) continue;
    if (!IsEmpty(builder, output)) {
      computes = true;
      continue;
    }
    builder.Define(output, builder.NewTensor(node.name, builder.dims(output), Layout::kPlain,
                                             builder.type(output)));
    // The lowering of a node with other outputs then leaves this one out.
    if (node.op == "Split") output = kNoValue;
  }
  if (!computes) return {};
  if (node.op == "Concat") {
    std::erase_if(node.inputs, [&](ValueId id) { return IsEmpty(builder, id); });
  }
  const bool from_nothing = std::any_of(node.inputs.begin(), node.inputs.end(),
                                        [&](ValueId id) { return IsEmpty(builder, id); });
  return from_nothing ? LowerFromNothing(builder, node) : otherwise(builder, node);
}

}  // namespace lagoon
