#include "graph/ops/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "graph/expand/expand.h"
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

}  // namespace

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

namespace {

Status CheckRunTimeInputs(const OpContext& context, const OpSpec& spec) {
  if (spec.run_time != RunTime::kNever) return {};
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i) || context.constant(i) != nullptr) continue;
    context.Misses(i);
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
        budget.ChargeWork(std::max(context.constant(i)->bytes.size(), least), "a constant input"));
  }
  return {};
}

/// The attributes of a node as text, to be hashed; nothing if one of them is no number or text.
std::optional<std::string> AttributeText(const Node& node) {
  std::string text = node.op;
  for (const auto& [name, value] : node.attributes) {
    text += ' ' + name + '=';
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      text += std::to_string(*number);
    } else if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) {
      text += ToString(*numbers);
    } else {
      return std::nullopt;
    }
  }
  return text;
}

/// One output of a node that moves or converts elements, which can be computed later. Nothing for
/// other nodes and for small outputs.
std::optional<Constant> DeferredOutput(const OpContext& context, const OpSpec& spec,
                                       std::size_t output) {
  static constexpr Evaluator kMoves[] = {EvaluateTranspose, EvaluateSlice,       EvaluateSplit,
                                         EvaluateConcat,    EvaluateCast,        EvaluateDequantize,
                                         EvaluateQuantize,  EvaluateDecodeBlocks};
  const Value& value = context.output(output);
  const std::size_t bytes = static_cast<std::size_t>(ElementCount(value.dims)) * SizeOf(value.type);
  if (bytes < kDeferredBytes || std::ranges::find(kMoves, spec.evaluate) == std::end(kMoves)) {
    return std::nullopt;
  }
  const std::optional<std::string> text = AttributeText(context.node());
  if (!text) return std::nullopt;
  // A graph of this node alone.
  Graph graph;
  graph.opset = context.opset();
  Node node = context.node();
  std::vector<Constant> from;
  const auto add = [&graph](ValueId& id, const Value& of) {
    if (id == kNoValue) return;
    graph.values.push_back(of);
    id = static_cast<ValueId>(graph.values.size() - 1);
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (context.has_input(i)) from.push_back(*context.constant(i));
    if (context.has_input(i)) add(node.inputs[i], context.input(i));
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (context.has_output(i)) add(node.outputs[i], context.output(i));
  }
  const auto evaluate = [graph = std::move(graph), node = std::move(node), output,
                         by = spec.evaluate](std::span<const Constant>) {
    Graph own = graph;
    Node of = node;
    Result<ConstantBytes> contents = by(OpContext(own, of), output);
    if (!contents) throw ConstantError(contents.error().message);
    return **contents;
  };
  return DerivedConstant(value.type, value.dims, fmt::format("{} output {}", *text, output),
                         std::move(from), evaluate);
}

/// What a DequantizeLinear read; null if that is not one number of 8 bits for each of its results.
std::shared_ptr<const QuantizedConstant> QuantizedOf(const OpContext& context, const OpSpec& spec) {
  if (spec.evaluate != EvaluateDequantize || context.node().Int("block_size", 0) != 0) return {};
  const DataType type = context.input(0).type;
  if (type != DataType::kInt8 && type != DataType::kUInt8) return {};
  if (context.input(1).type != DataType::kFloat32 || context.constant(0)->narrow != 0) return {};
  QuantizedConstant from{*context.constant(0), *context.constant(1)};
  if (context.has_input(2)) from.zero = *context.constant(2);
  from.axis = context.node().Int("axis", -1);
  return std::make_shared<const QuantizedConstant>(std::move(from));
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
    value.quantized = QuantizedOf(context, spec);
    value.constant = DeferredOutput(context, spec, i);
    if (value.constant) continue;
    LAGOON_ASSIGN_OR_RETURN(ConstantBytes contents, spec.evaluate(context, i));
    value.constant = Constant{value.type, value.dims, std::move(contents)};
    if (spec.evaluate == EvaluateAlias) value.constant->narrow = context.constant(0)->narrow;
  }
  return {};
}

Status ChargeActivations(const OpContext& context, ByteBudget& budget) {
  for (std::size_t i = 0; i < context.node().outputs.size(); ++i) {
    if (!context.has_output(i)) continue;
    const Value& value = context.output(i);
    LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, context.Bytes(value.dims, value.type));
    if (const Status charged = budget.ChargeActivation(bytes, "its output"); !charged) {
      return tl::unexpected(context.Named(charged.error()));
    }
  }
  return {};
}

/// Whether a request decides what the node computes. Call it before the op's rule, which makes
/// attributes of parameters. A node that shares the bytes of its input has the contents of this
/// input alone.
bool ReadsRequest(const OpContext& context, const OpSpec& spec) {
  if (spec.run_time == RunTime::kShapeOnly) return true;
  for (std::size_t i = 0; i < context.input_count() && !Shares(spec); ++i) {
    if (context.has_input(i) && context.input(i).from_request) return true;
  }
  return false;
}

/// Counts the outputs of a node that is computed when the graph becomes a plan, if a request
/// decides them: before they are computed. `from_request`: ReadsRequest().
Status ChargeRequest(Graph& graph, const OpContext& context, const OpSpec& spec,
                     bool from_request) {
  for (std::size_t i = 0; i < context.input_count() && spec.run_time != RunTime::kShapeOnly; ++i) {
    if (!context.has_input(i)) continue;
    const Value& input = context.input(i);
    if (!input.constant && !input.from_request) return {};
    from_request = from_request || input.from_request;
  }
  if (!from_request) return {};
  for (std::size_t i = 0; i < context.node().outputs.size(); ++i) {
    if (!context.has_output(i)) continue;
    Value& value = graph.value(context.node().outputs[i]);
    value.from_request = true;
    if (Shares(spec)) continue;
    LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, context.Bytes(value.dims, value.type));
    const Status charged = graph.work.Charge(bytes);
    if (!charged) return tl::unexpected(context.Named(charged.error()));
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

Status RefuseBody(const OpContext& context, const std::string& attribute) {
  return context.Unimplemented(
      fmt::format("attribute {} is a graph, which the op does not take", Quoted(attribute)));
}

// Drops the hidden outputs that an earlier inference of the same node added.
void DropSizes(Graph& graph, Node& node, const OpSpec& spec) {
  if (!spec.data_dependent) return;
  for (std::size_t i = 0; i < std::min(node.outputs.size(), spec.max_outputs); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    ValueId& sizes = graph.value(node.outputs[i]).sizes;
    if (sizes != kNoValue) std::erase(node.outputs, sizes);
    sizes = kNoValue;
  }
}

// What would make the dims of `id` certain: ", or input 'k' must be constant".
std::string WayOut(const Graph& graph, ValueId id) {
  for (const Node& node : graph.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), id) == node.outputs.end()) continue;
    const std::size_t input = node.op == "NonZero" ? 0 : 1;
    if (node.op != "NonZero" && node.op != "Compress" && node.op != "TopK") break;
    return fmt::format(", or input {} must be constant",
                       Quoted(graph.value(node.inputs[input]).name));
  }
  return {};
}

tl::unexpected<Error> NameDomain(const Node& node, Error error) {
  if (node.domain == "com.microsoft.nchwc") {
    error.message +=
        " (ONNX Runtime optimised the file for one type of CPU; save it at the level "
        "\"extended\")";
  }
  return Annotate(fmt::format("domain {}: op {}", Quoted(node.domain), Quoted(node.op)),
                  std::move(error));
}

bool IsKnown(const Node& node) {
  if (IsExpandable(node) || node.opaque != nullptr) return true;
  return node.domain.empty() && (FindOp(node.op) != nullptr || FindControlOp(node.op) != nullptr);
}

/// The error of a node whose op Lagoon does not have.
Error UnknownOp(Graph& graph, Node node) {
  Error error = OpContext(graph, node).Unimplemented("the op is not supported").value();
  return node.domain.empty() ? error : NameDomain(node, std::move(error)).value();
}

/// Strings are moved along with their tensor, if at all: kernels neither read nor make them.
bool TakesStrings(const Node& node) {
  static constexpr std::string_view kOps[] = {"Identity",  "Reshape", "Flatten", "Squeeze",
                                              "Unsqueeze", "Shape",   "Size",    "Constant"};
  return node.domain.empty() && std::ranges::find(kOps, node.op) != std::end(kOps);
}

/// kUnimplemented: the node reads or holds strings and takes none.
Status CheckStrings(const OpContext& context) {
  if (TakesStrings(context.node())) return {};
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i) || context.input(i).type != DataType::kString) continue;
    return context.Unimplemented(
        fmt::format("input {} {} holds strings", i, Quoted(context.input(i).name)));
  }
  for (const auto& [name, value] : context.node().attributes) {
    const auto* const constant = std::get_if<Constant>(&value);
    if (constant == nullptr || constant->type != DataType::kString) continue;
    return context.Unimplemented(fmt::format("attribute {} holds strings", Quoted(name)));
  }
  return {};
}

Status InferPlain(Graph& graph, Node& node, ByteBudget& budget, ValueId* missing) {
  OpContext context(graph, node, missing);
  const OpSpec* spec = FindOp(node.op);
  if (spec == nullptr) return context.Unimplemented("the op is not supported");
  DropSizes(graph, node, *spec);
  for (const ValueId input : node.inputs) {
    const Status actual = CheckDimsAreActual(graph, input, "the node");
    if (!actual) return tl::unexpected(context.Named(actual.error()));
  }
  LAGOON_RETURN_IF_ERROR(CheckSignature(context, *spec));
  if (!node.bodies.empty()) return RefuseBody(context, node.bodies.begin()->first);
  LAGOON_RETURN_IF_ERROR(CheckRunTimeInputs(context, *spec));
  const bool from_request = ReadsRequest(context, *spec);
  LAGOON_RETURN_IF_ERROR(spec->rule(context));
  LAGOON_RETURN_IF_ERROR(CheckOutputSizes(context));
  LAGOON_RETURN_IF_ERROR(graph.work.CheckWanted());
  LAGOON_RETURN_IF_ERROR(ChargeRequest(graph, context, *spec, from_request));
  LAGOON_ASSIGN_OR_RETURN(const bool constant, EvaluateIfConstant(graph, node, budget));
  return constant ? Status{} : ChargeActivations(context, budget);
}

Status InferNode(Graph& graph, Node node, ByteBudget& budget, ValueId* missing);

// Appends the nodes that `node` is composed of. If one of them is refused, the graph keeps none.
Status InferExpanded(Graph& graph, Node& node, const Expansion& expansion, ByteBudget& budget,
                     ValueId* missing) {
  const OpContext context(graph, node);
  LAGOON_RETURN_IF_ERROR(CheckSignature(context, expansion.signature));
  const std::size_t first = graph.nodes.size();
  const auto infer = [&](Node part) { return InferNode(graph, std::move(part), budget, missing); };
  Writer writer(graph, node, budget, infer, missing);
  expansion.expand(writer);
  if (writer.status()) return {};
  graph.nodes.resize(first);
  return writer.status();
}

Status InferNode(Graph& graph, Node node, ByteBudget& budget, ValueId* missing) {
  NameFirstOutput(graph, node);
  if (const Status none = CheckStrings(OpContext(graph, node)); !none) {
    return node.domain.empty() ? none : NameDomain(node, none.error());
  }
  if (const Expansion* expansion = FindExpansion(OpContext(graph, node))) {
    const Status expanded = InferExpanded(graph, node, *expansion, budget, missing);
    return expanded || node.domain.empty() ? expanded : NameDomain(node, expanded.error());
  }
  if (!node.domain.empty()) {
    return tl::unexpected(UnknownOp(graph, node));
  }
  LAGOON_RETURN_IF_ERROR(InferPlain(graph, node, budget, missing));
  graph.nodes.push_back(std::move(node));
  return {};
}

}  // namespace

Status FindUnknownOps(Graph& graph, std::span<const Node> nodes, std::span<const ValueId> outputs,
                      Branches branches) {
  std::set<ValueId> needed(outputs.begin(), outputs.end());
  std::optional<Error> found;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    const bool used =
        std::ranges::any_of(node.outputs, [&](ValueId id) { return needed.contains(id); });
    if (!used) continue;
    const bool whole = node.op != "If" || branches == Branches::kAll;
    const auto inputs = whole ? std::span<const ValueId>(node.inputs) : node.formal_inputs();
    needed.insert(inputs.begin(), inputs.end());
    if (!IsKnown(node)) found = UnknownOp(graph, node);
    if (!whole) continue;
    for (const auto& [name, body] : node.bodies) {
      const Status inside = FindUnknownOps(graph, body->nodes, body->outputs, branches);
      if (!inside) found = inside.error();
    }
  }
  if (found) return tl::unexpected(*std::move(found));
  return {};
}

Status CheckDimsAreActual(const Graph& graph, ValueId id, std::string_view reader) {
  if (id == kNoValue) return {};
  if (graph.value(id).unsized) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} reads {}, whose shape depends on data: it is known only when the "
                            "engine has computed it",
                            reader, Quoted(graph.value(id).name)));
  }
  if (graph.value(id).sizes == kNoValue) return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{} reads {}, whose shape depends on data: at most {}, known only at run "
                          "time{}",
                          reader, Quoted(graph.value(id).name), ToString(graph.value(id).dims),
                          WayOut(graph, id)));
}

Result<bool> EvaluateIfConstant(Graph& graph, Node& node, ByteBudget& budget) {
  if (node.opaque != nullptr) return false;
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

Status InferShapes(Graph& graph, ByteBudget& budget, LaterNodes* later) {
  const auto infer = [&](Node node, ValueId& missing) {
    return InferNode(graph, std::move(node), budget, &missing);
  };
  LAGOON_RETURN_IF_ERROR(GraphWalk(graph, budget, later, infer).Run());
  if (later != nullptr) return {};
  for (const ValueId output : graph.outputs) {
    LAGOON_RETURN_IF_ERROR(CheckDimsAreActual(graph, output, "an output of the graph"));
  }
  return {};
}

}  // namespace lagoon
