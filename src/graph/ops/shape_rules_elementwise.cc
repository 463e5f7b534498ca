// Ops that compute each element independently.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/import/tensor_import.h"
#include "graph/ops/shape_rules.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

Status CheckSameTypes(const OpContext& context) {
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (!context.has_input(i)) return context.Invalid(fmt::format("input {} is left out", i));
    LAGOON_RETURN_IF_ERROR(context.SameType(0, {i}));
  }
  return {};
}

Status CheckFlags(const OpContext& context) {
  if (context.input(0).type == DataType::kBool) return {};
  return context.Invalid(fmt::format("takes BOOL, not {}", OipName(context.input(0).type)));
}

}  // namespace

Result<Dims> Broadcast(const OpContext& context, const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // from the last dimension
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) {
      return context.Invalid(
          fmt::format("shapes {} and {} do not broadcast", ToString(a), ToString(b)));
    }
    out[out.size() - 1 - i] = left == 1 ? right : left;
  }
  return out;
}

namespace {

Status InferUnary(OpContext& context) {
  context.SetOutput(context.dims(0));
  return {};
}

Status InferUnaryRow(OpContext& context) {
  const elementwise::UnaryRow* row = elementwise::FindUnary(context.node().op);
  LAGOON_CHECK(row != nullptr);
  if (row->takes_flags) LAGOON_RETURN_IF_ERROR(CheckFlags(context));
  for (const elementwise::Parameter& parameter : {row->alpha, row->beta}) {
    if (parameter.attribute == nullptr) continue;
    const std::string name = parameter.attribute;
    if (parameter.kind == 'i') {
      const auto otherwise = static_cast<std::int64_t>(parameter.otherwise);
      context.SetAttribute(name, context.node().Int(name, otherwise));
    } else {
      context.SetAttribute(name, context.node().Float(name, parameter.otherwise));
    }
  }
  context.SetOutput(0, row->gives_flags ? DataType::kBool : context.input(0).type, context.dims(0));
  return {};
}

Status InferGelu(OpContext& context) {
  const std::string mode = context.node().String("approximate", "none");
  if (mode != "none" && mode != "tanh") {
    return context.Invalid(fmt::format("approximate is {}, not 'none' or 'tanh'", Quoted(mode)));
  }
  context.SetAttribute("approximate", mode);
  return InferUnary(context);
}

Status InferClip(OpContext& context) {
  const bool attributes = context.has_attribute("min") || context.has_attribute("max");
  if (context.opset() < 11 ? context.input_count() > 1 : attributes) {
    return context.Invalid("min and max are attributes before opset 11 and inputs since");
  }
  if (!attributes && !context.has_input(1) && !context.has_input(2)) {
    context.SetOp("Identity");
    context.KeepInputs(1);
    return InferUnary(context);
  }
  // For wider types the limits of FP32 are no limits.
  const bool fp32 = context.input(0).type == DataType::kFloat32;
  using Limits = std::numeric_limits<float>;
  float low = context.node().Float("min", fp32 ? Limits::lowest() : -Limits::infinity());
  float high = context.node().Float("max", fp32 ? Limits::max() : Limits::infinity());
  bool constant = fp32;
  for (std::size_t i = 1; i <= 2; ++i) {
    if (!context.has_input(i)) continue;
    const Value& bound = context.input(i);
    if (bound.type != context.input(0).type || ElementCount(bound.dims) != 1) {
      return context.Invalid(fmt::format("bound {} is {} {}, takes one {}", Quoted(bound.name),
                                         OipName(bound.type), ToString(bound.dims),
                                         OipName(context.input(0).type)));
    }
    constant = constant && bound.constant;
    if (constant) (i == 1 ? low : high) = bound.constant->floats()[0];
  }
  if (!constant && !attributes) return InferUnary(context);
  low = std::min(low, high);  // crossed bounds give the upper one, as ONNX says
  if (std::isnan(low) || std::isnan(high)) return context.Invalid("a bound is not a number");
  context.KeepInputs(1);
  context.SetAttribute("min", low);
  context.SetAttribute("max", high);
  return InferUnary(context);
}

Status InferDropout(OpContext& context) {
  if (context.opset() < 12 && context.input_count() > 1) {
    return context.Invalid("has inputs that came with opset 12");
  }
  if (context.has_input(2)) {
    const Constant* training = context.constant(2);
    if (training == nullptr || training->type != DataType::kBool || training->bytes->size() != 1) {
      return context.Unimplemented(
          fmt::format("training_mode {} must be constant, one BOOL; it is computed at run time",
                      Quoted(context.input(2).name)));
    }
    const bool keeps = context.has_input(1) && context.constant(1) != nullptr &&
                       context.input(1).type == DataType::kFloat32 &&
                       ElementCount(context.dims(1)) == 1 && context.constant(1)->floats()[0] == 0;
    if (training->bytes->front() != std::byte{0} && !keeps) {
      return context.Unimplemented("training_mode is true: export the model for inference");
    }
  }
  constexpr std::int64_t kBoolMaskSince = 10;
  const DataType mask = context.opset() < kBoolMaskSince ? context.input(0).type : DataType::kBool;
  context.KeepInputs(1);
  context.SetOutput(1, mask, context.dims(0));
  return InferUnary(context);
}

Status InferCast(OpContext& context) {
  if (!context.has_attribute("to")) return context.Invalid("has no 'to'");
  LAGOON_ASSIGN_OR_RETURN(const DataType type, context.TypeAttribute("to", DataType::kFloat32));
  context.EraseAttribute("saturate");    // only for 8-bit floats
  context.EraseAttribute("round_mode");  // only for FLOAT8E8M0
  context.SetOutput(0, type, context.dims(0));
  return {};
}

Status InferBitCast(OpContext& context) {
  if (!context.has_attribute("to")) return context.Invalid("has no 'to'");
  LAGOON_ASSIGN_OR_RETURN(const DataType type, context.TypeAttribute("to", DataType::kFloat32));
  const Value& x = context.input(0);
  if (type == DataType::kBool) context.SetOp("Cast");  // every byte but 0 is true
  if (SizeOf(type) != SizeOf(x.type)) {
    return context.Invalid(fmt::format("input {} is {}, which has not the size of {}",
                                       Quoted(x.name), OipName(x.type), OipName(type)));
  }
  if (x.constant && x.constant->narrow != 0) {
    return context.Unimplemented(
        fmt::format("input {} has ONNX element type {}, which is supported as storage of weights "
                    "only",
                    Quoted(x.name), x.constant->narrow));
  }
  context.SetOutput(0, type, context.dims(0));
  return {};
}

Status InferCastLike(OpContext& context) {
  const DataType type = context.input(1).type;
  context.KeepInputs(1);
  context.SetOp("Cast");
  context.EraseAttribute("saturate");
  context.EraseAttribute("round_mode");
  context.SetAttribute("to", ToOnnxType(type));
  context.SetOutput(0, type, context.dims(0));
  return {};
}

Status InferPow(OpContext& context) {
  Dims out = context.dims(0);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(out, Broadcast(context, out, context.dims(i)));
  }
  context.SetOutput(std::move(out));
  return {};
}

Status InferBinary(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckSameTypes(context));
  return InferPow(context);
}

Status InferSum(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(InferBinary(context));
  if (context.input_count() == 2) context.SetOp("Add");  // fusion supports Add
  return {};
}

Status InferBinaryRow(OpContext& context) {
  const elementwise::BinaryRow* row = elementwise::FindBinary(context.node().op);
  LAGOON_CHECK(row != nullptr);
  if (row->takes_flags) LAGOON_RETURN_IF_ERROR(CheckFlags(context));
  LAGOON_RETURN_IF_ERROR(InferBinary(context));
  if (row->gives_flags) context.SetOutput(0, DataType::kBool, context.output(0).dims);
  return {};
}

Status InferBitShift(OpContext& context) {
  const std::string direction = context.node().String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return context.Invalid(fmt::format("direction is {}, not LEFT or RIGHT", Quoted(direction)));
  }
  return InferBinary(context);
}

Status InferPRelu(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(InferBinary(context));
  if (context.output(0).dims == context.dims(0)) return {};
  return context.Invalid(fmt::format("slope {} does not broadcast to {}", ToString(context.dims(1)),
                                     ToString(context.dims(0))));
}

Status InferWhere(OpContext& context) {
  if (context.input(0).type != DataType::kBool || context.input(1).type != context.input(2).type) {
    return context.Invalid(fmt::format(
        "takes BOOL and two of one type, has {}, {} and {}", OipName(context.input(0).type),
        OipName(context.input(1).type), OipName(context.input(2).type)));
  }
  LAGOON_ASSIGN_OR_RETURN(Dims out, Broadcast(context, context.dims(1), context.dims(2)));
  LAGOON_ASSIGN_OR_RETURN(out, Broadcast(context, context.dims(0), out));
  context.SetOutput(0, context.input(1).type, std::move(out));
  return {};
}

constexpr OpSpec kElementwiseOps[] = {
    {"PRelu", 7, 2, 2, 1, "", InferPRelu},
    {"Gelu", 20, 1, 1, 1, "s:approximate", InferGelu},
    {"Clip", 6, 1, 3, 1, "f:max f:min", InferClip, EvaluateClip},
    {"Mod", 10, 2, 2, 1, "i:fmod", InferBinary, EvaluateMod},
    {"Pow", 7, 2, 2, 1, "", InferPow, EvaluatePow},
    {"Sum", 6, 1, kMaxGraphEdges, 1, "", InferSum, EvaluateBinary},
    {"Mean", 6, 1, kMaxGraphEdges, 1, "", InferBinary},
    {"BitShift", 11, 2, 2, 1, "s:direction", InferBitShift},
    {"Equal", 7, 2, 2, 1, "", InferBinaryRow, EvaluateCompare},
    {"Where", 9, 3, 3, 1, "", InferWhere, EvaluateWhere},
    {"Identity", 1, 1, 1, 1, "", InferUnary, EvaluateAlias},
    {"Dropout", 7, 1, 3, 2, "f:ratio i:seed", InferDropout},
    {"BitCast", 26, 1, 1, 1, "i:to", InferBitCast, EvaluateAlias},
    {"Cast", 6, 1, 1, 1, "s:round_mode i:saturate i:to", InferCast, EvaluateCast},
    {"CastLike", 15, 2, 2, 1, "s:round_mode i:saturate", InferCastLike, EvaluateCast},
};

/// "f:alpha f:beta", as in OpSpec.
std::string AttributesOf(const elementwise::UnaryRow& row) {
  std::string attributes;
  for (const elementwise::Parameter& parameter : {row.alpha, row.beta}) {
    if (parameter.attribute == nullptr) continue;
    if (!attributes.empty()) attributes += ' ';
    attributes += fmt::format("{}:{}", parameter.kind, parameter.attribute);
  }
  return attributes;
}

Evaluator EvaluatorOf(const elementwise::UnaryRow& row) {
  if (!row.folds) return nullptr;
  return row.takes_flags ? EvaluateNot : EvaluateUnary;
}

Evaluator EvaluatorOf(const elementwise::BinaryRow& row) {
  if (!row.folds) return nullptr;
  return row.takes_flags || row.gives_flags ? EvaluateCompare : EvaluateBinary;
}

/// The ops that their row of plan/elementwise_list.h describes.
struct RowOps {
  std::deque<std::string> attributes;  // the specs refer to them
  std::vector<OpSpec> specs;

  RowOps() {
    for (const elementwise::UnaryRow& row : elementwise::kUnaryRows) {
      if (row.since == 0) continue;
      specs.push_back({row.name, row.since, 1, 1, 1, attributes.emplace_back(AttributesOf(row)),
                       InferUnaryRow, EvaluatorOf(row)});
    }
    for (const elementwise::BinaryRow& row : elementwise::kBinaryRows) {
      if (row.since == 0) continue;
      const std::size_t least = row.any_inputs ? 1 : 2;
      const std::size_t most = row.any_inputs ? kMaxGraphEdges : 2;
      specs.push_back({row.name, row.since, least, most, 1, "", InferBinaryRow, EvaluatorOf(row)});
    }
  }
};

}  // namespace

std::span<const OpSpec> ElementwiseOps() { return kElementwiseOps; }

std::span<const OpSpec> ElementwiseRowOps() {
  static const RowOps rows;
  return rows.specs;
}

}  // namespace lagoon
