// Ops that compute each element by itself.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/shape_rules.h"
#include "graph/tensor_import.h"
#include "graph/text.h"

namespace lagoon {
namespace {

Status CheckSameTypes(const OpContext& context) {
  const DataType type = context.input(0).type;
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (!context.has_input(i)) return context.Invalid(fmt::format("input {} is left out", i));
    if (context.input(i).type != type) {
      return context.Invalid(fmt::format(
          "input {} is {}, input {} is {}", Quoted(context.input(0).name), OipName(type),
          Quoted(context.input(i).name), OipName(context.input(i).type)));
    }
  }
  return {};
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

Status InferUnary(OpContext& context) {
  context.SetOutput(context.dims(0));
  return {};
}

Status InferLeakyRelu(OpContext& context) {
  context.SetAttribute("alpha", context.node().Float("alpha", 0.01f));
  return InferUnary(context);
}

Status InferHardSigmoid(OpContext& context) {
  context.SetAttribute("alpha", context.node().Float("alpha", 0.2f));
  context.SetAttribute("beta", context.node().Float("beta", 0.5f));
  return InferUnary(context);
}

Status InferClip(OpContext& context) {
  const bool attributes = context.has_attribute("min") || context.has_attribute("max");
  if (context.opset() < 11 ? context.input_count() > 1 : attributes) {
    return context.Invalid("min and max are attributes before opset 11 and inputs since");
  }
  float low = context.node().Float("min", std::numeric_limits<float>::lowest());
  float high = context.node().Float("max", std::numeric_limits<float>::max());
  if (context.has_input(1)) {
    LAGOON_ASSIGN_OR_RETURN(low, context.ConstantFloat(1, "min"));
  }
  if (context.has_input(2)) {
    LAGOON_ASSIGN_OR_RETURN(high, context.ConstantFloat(2, "max"));
  }
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
      return context.Unimplemented("training_mode must be one constant BOOL");
    }
    if (training->bytes->front() != std::byte{0}) {
      return context.Unimplemented("training_mode is true: export the model for inference");
    }
  }
  context.KeepInputs(1);
  context.SetOutput(1, DataType::kBool, context.dims(0));
  return InferUnary(context);
}

Status InferCast(OpContext& context) {
  const std::int64_t to = context.node().Int("to", 0);
  const std::optional<DataType> type = to >= 0 && to <= onnx::TensorProto::DataType_MAX
                                           ? ToDataType(static_cast<int>(to))
                                           : std::nullopt;
  if (!type) return context.Unimplemented(fmt::format("to ONNX element type {}", to));
  if (context.constant(0) == nullptr && *type != context.input(0).type) {
    return context.Unimplemented(
        fmt::format("from {} to {} at run time", OipName(context.input(0).type), OipName(*type)));
  }
  context.SetOutput(0, *type, context.dims(0));
  return {};
}

Status InferBinary(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckSameTypes(context));
  Dims out = context.dims(0);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(out, Broadcast(context, out, context.dims(i)));
  }
  context.SetOutput(std::move(out));
  return {};
}

Status InferSum(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(InferBinary(context));
  if (context.input_count() == 2) context.SetOp("Add");  // which fusion knows
  return {};
}

Status InferEqual(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(InferBinary(context));
  context.SetOutput(0, DataType::kBool, context.output(0).dims);
  return {};
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

}  // namespace lagoon
