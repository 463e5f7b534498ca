#include "graph/ops/infer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/import/attributes.h"

namespace lagoon {
namespace {

// True if `list`, the attributes of a row of the op table, contains "k:name" with the kind letter
// `kind`.
bool TakesAttribute(std::string_view list, std::string_view name, char kind) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(' '));
    if (entry.substr(2) == name) return entry[0] == kind;
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
  }
  return false;
}

Status CheckSignature(const OpContext& context, const OpSpec& spec) {
  const Node& node = context.node();
  if (context.opset() < spec.since) {
    return context.Unimplemented(fmt::format("the op is supported from opset {} on", spec.since));
  }
  if (context.input_count() < spec.min_inputs || context.input_count() > spec.max_inputs) {
    return context.Unimplemented(fmt::format("has {} inputs, supported are {} to {}",
                                             context.input_count(), spec.min_inputs,
                                             spec.max_inputs));
  }
  for (std::size_t i = 0; i < spec.min_inputs; ++i) {
    if (!context.has_input(i)) return context.Invalid(fmt::format("input {} is left out", i));
  }
  if (node.outputs.size() > spec.max_outputs) {
    return context.Unimplemented(fmt::format("has {} outputs, supported are at most {}",
                                             node.outputs.size(), spec.max_outputs));
  }
  for (const auto& [name, value] : node.attributes) {
    if (!TakesAttribute(spec.attributes, name, KindLetter(value))) {
      return context.Unimplemented(
          fmt::format("attribute {} is not supported, or not of this type", Quoted(name)));
    }
  }
  return {};
}

Status CheckRunTimeInputs(const OpContext& context, const OpSpec& spec) {
  if (spec.run_time != RunTime::kNever) return {};
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i) || context.constant(i) != nullptr) continue;
    return context.Unimplemented(
        fmt::format("is supported on constants only; input {} {} must be constant, it is computed "
                    "at run time",
                    i, Quoted(context.input(i).name)));
  }
  return {};
}

bool AllConstant(const OpContext& context) {
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (context.has_input(i) && context.constant(i) == nullptr) return false;
  }
  return true;
}

// Aliases and constants share bytes that are already counted.
bool Shares(const OpSpec& spec) {
  return spec.evaluate == EvaluateAlias || spec.evaluate == EvaluateConstant;
}

Status ChargeInputs(const OpContext& context, const OpSpec& spec, ByteBudget& budget) {
  if (Shares(spec) || spec.run_time == RunTime::kShapeOnly) return {};
  // Sums of many inputs read the whole output once for each input.
  const std::size_t least = spec.evaluate == EvaluateBinary
                                ? static_cast<std::size_t>(ElementCount(context.output(0).dims)) *
                                      SizeOf(DataType::kFloat32)
                                : 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i)) continue;
    LAGOON_RETURN_IF_ERROR(
        budget.ChargeWork(std::max(context.constant(i)->bytes->size(), least), "a constant input"));
  }
  return {};
}

Status Evaluate(Graph& graph, const OpContext& context, const OpSpec& spec, ByteBudget& budget) {
  if (const Status charged = ChargeInputs(context, spec, budget); !charged) {
    return tl::unexpected(context.Named(charged.error()));
  }
  for (std::size_t i = 0; i < context.node().outputs.size(); ++i) {
    if (!context.has_output(i)) continue;
    Value& value = graph.value(context.node().outputs[i]);
    LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, context.Bytes(value.dims, value.type));
    if (!Shares(spec)) {
      if (const Status charged = budget.Charge(bytes, "its constant output"); !charged) {
        return tl::unexpected(context.Named(charged.error()));
      }
    }
    LAGOON_ASSIGN_OR_RETURN(ConstantBytes contents, spec.evaluate(context, i));
    value.constant = Constant{value.type, value.dims, std::move(contents)};
  }
  return {};
}

Status ChargeActivations(const OpContext& context, ByteBudget& budget) {
  for (std::size_t i = 0; i < context.node().outputs.size(); ++i) {
    if (!context.has_output(i)) continue;
    const Value& value = context.output(i);
    LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, context.Bytes(value.dims, value.type));
    if (bytes == 0) {
      return context.Invalid(
          fmt::format("output {} is empty: shape {}", Quoted(value.name), ToString(value.dims)));
    }
    if (const Status charged = budget.Charge(bytes, "its output"); !charged) {
      return tl::unexpected(context.Named(charged.error()));
    }
  }
  return {};
}

Status CheckOutputSizes(const OpContext& context) {
  for (std::size_t i = 0; i < context.node().outputs.size(); ++i) {
    if (!context.has_output(i)) continue;
    LAGOON_RETURN_IF_ERROR(context.Bytes(context.output(i).dims, context.output(i).type));
  }
  return {};
}

// Names a first output that the file leaves out, because rules and lowerings always expect one.
void NameFirstOutput(Graph& graph, Node& node) {
  if (node.outputs.empty() || node.outputs[0] != kNoValue) return;
  Value value;
  value.name = node.name + ".0";
  graph.values.push_back(std::move(value));
  node.outputs[0] = static_cast<ValueId>(graph.values.size() - 1);
}

Status InferNode(Graph& graph, Node& node, ByteBudget& budget) {
  NameFirstOutput(graph, node);
  OpContext context(graph, node);
  const OpSpec* spec = FindOp(node.op);
  if (spec == nullptr) return context.Unimplemented("the op is not supported");
  LAGOON_RETURN_IF_ERROR(CheckSignature(context, *spec));
  LAGOON_RETURN_IF_ERROR(CheckRunTimeInputs(context, *spec));
  LAGOON_RETURN_IF_ERROR(spec->rule(context));
  LAGOON_RETURN_IF_ERROR(CheckOutputSizes(context));
  LAGOON_ASSIGN_OR_RETURN(const bool constant, EvaluateIfConstant(graph, node, budget));
  return constant ? Status{} : ChargeActivations(context, budget);
}

}  // namespace

Result<bool> EvaluateIfConstant(Graph& graph, Node& node, ByteBudget& budget) {
  const OpContext context(graph, node);
  const OpSpec* spec = FindOp(node.op);
  if (spec == nullptr) return context.Unimplemented("the op is not supported");
  if (spec->evaluate == nullptr) return false;
  if (!AllConstant(context) && spec->run_time != RunTime::kShapeOnly) return false;
  Status evaluated = Evaluate(graph, context, *spec, budget);
  if (evaluated) return true;
  const bool never = spec->run_time == RunTime::kNever;
  if (evaluated.error().code != ErrorCode::kUnimplemented || never) {
    return tl::unexpected(std::move(evaluated).error());
  }
  return false;
}

Status InferShapes(Graph& graph, ByteBudget& budget) {
  for (Node& node : graph.nodes) LAGOON_RETURN_IF_ERROR(InferNode(graph, node, budget));
  return {};
}

}  // namespace lagoon
