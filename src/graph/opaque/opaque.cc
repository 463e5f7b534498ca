#include "graph/opaque/opaque.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace lagoon {
namespace {

/// Larger constants are not given to a model that only tells shapes.
constexpr std::size_t kSmallConstant = 1 << 16;

Status CheckTensor(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kTensor) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} is a sequence or an optional", Quoted(value.name)));
  }
  if (value.sizes != kNoValue || value.unsized) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("the shape of {} depends on data", Quoted(value.name)));
  }
  if (value.shape_known || value.constant) return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("the shape of {} is not known", Quoted(value.name)));
}

/// The node alone. `outer_inputs`: gets the values that it reads and that are not constant.
Result<Graph> GraphOf(const Graph& graph, Node node, std::vector<ValueId>& outer_inputs) {
  Graph alone;
  alone.opset = graph.OpsetOf(node);
  std::unordered_map<ValueId, ValueId> inner;
  const auto add = [&](ValueId id) {
    const auto [known, is_new] = inner.try_emplace(id, static_cast<ValueId>(alone.values.size()));
    if (is_new) {
      const Value& from = graph.value(id);
      Value& value = alone.values.emplace_back();
      value.name = from.name;
      value.type = from.type;
      value.dims = from.dims;
      value.shape_known = from.shape_known;
      value.constant = from.constant;
    }
    return std::pair(known->second, is_new);
  };
  for (ValueId& input : node.inputs) {
    if (input == kNoValue) continue;
    LAGOON_RETURN_IF_ERROR(CheckTensor(graph, input));
    const ValueId outer = input;
    const auto [id, is_new] = add(outer);
    input = id;
    if (!is_new || alone.value(id).constant) continue;
    alone.inputs.push_back(id);
    outer_inputs.push_back(outer);
  }
  for (ValueId& output : node.outputs) {
    if (output == kNoValue) continue;
    output = add(output).first;
    alone.outputs.push_back(output);
  }
  alone.nodes.push_back(std::move(node));
  return alone;
}

std::vector<EngineTensor> InputsOf(const Graph& graph) {
  std::vector<EngineTensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    inputs.push_back({value.type, value.dims, nullptr});
  }
  return inputs;
}

Result<std::shared_ptr<EngineModel>> LoadAs(EngineHost& engine, const Graph& graph,
                                            InputDims dims) {
  LAGOON_ASSIGN_OR_RETURN(const std::string bytes, ToOnnx(graph, dims));
  return engine.Load({{}, std::as_bytes(std::span(bytes))});
}

/// The graph with its large constants as inputs, so that loading it copies no weights.
Graph WithoutWeights(Graph graph) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    if (!value.constant || value.constant->bytes.size() <= kSmallConstant) continue;
    value.constant.reset();
    graph.inputs.push_back(static_cast<ValueId>(i));
  }
  return graph;
}

/// Whether the engine tells all shapes of the graph without its weights.
std::optional<EngineOutputs> DescribedOutputs(EngineHost& engine, const Graph& graph) {
  const auto model = LoadAs(engine, graph, InputDims::kFixed);
  if (!model) return std::nullopt;
  auto outputs = OutputsOf(**model, {}, Assume::kNever);
  if (!outputs || std::ranges::find(outputs->unsized, true) != outputs->unsized.end()) {
    return std::nullopt;
  }
  return *std::move(outputs);
}

/// Loads a graph with large constants once without them, and a graph without such constants once
/// for all: lowering then runs the same model, unless the node is merged with others.
Result<EngineOutputs> InferOutputs(OpaqueGraph& opaque, Assume assume) {
  const Graph light = WithoutWeights(opaque.graph);
  if (light.inputs.size() > opaque.graph.inputs.size()) {
    if (auto outputs = DescribedOutputs(*opaque.engine, light)) return *std::move(outputs);
    LAGOON_ASSIGN_OR_RETURN(opaque.model, LoadOpaque(opaque));
  } else {
    LAGOON_ASSIGN_OR_RETURN(opaque.model, LoadAs(*opaque.engine, opaque.graph, InputDims::kFixed));
  }
  return OutputsOf(*opaque.model, InputsOf(opaque.graph), assume);
}

}  // namespace

std::string OpName(const Node& node) {
  return node.domain.empty() ? node.op : node.domain + "." + node.op;
}

Result<std::shared_ptr<EngineModel>> LoadOpaque(const OpaqueGraph& opaque) {
  if (opaque.model != nullptr) return opaque.model;
  if (!opaque.file.empty()) return opaque.engine->Load({opaque.file, {}}, opaque.file);
  LAGOON_ASSIGN_OR_RETURN(const std::string bytes, ToOnnx(opaque.graph, InputDims::kOpen));
  const std::span<const std::byte> content = std::as_bytes(std::span(bytes));
  return opaque.engine->Load({{}, content}, ToString(IdentityOf(content)));
}

Result<bool> AppendOpaque(Graph& graph, const Node& node, const Error& why, Assume assume) {
  auto opaque = std::make_shared<OpaqueGraph>();
  Node replaced;
  replaced.name = node.name;
  replaced.op = kOpaqueOp;
  LAGOON_ASSIGN_OR_RETURN(opaque->graph, GraphOf(graph, node, replaced.inputs));
  opaque->ops = {OpName(node)};
  opaque->why = why.message;
  opaque->engine = graph.engine;
  if (graph.engine->IsUnsized(node.name)) assume = Assume::kNever;
  LAGOON_ASSIGN_OR_RETURN(const EngineOutputs outputs, InferOutputs(*opaque, assume));
  if (outputs.assumed) opaque->assumed = {node.name};
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    const EngineTensor& tensor = outputs.tensors[replaced.outputs.size()];
    Value& value = graph.value(output);
    value.type = tensor.type;
    value.dims = tensor.dims;
    value.shape_known = true;
    value.unsized = outputs.unsized[replaced.outputs.size()];
    value.constant.reset();
    value.kind = ValueKind::kTensor;
    replaced.outputs.push_back(output);
  }
  replaced.opaque = std::move(opaque);
  graph.nodes.push_back(std::move(replaced));
  return outputs.assumed;
}

}  // namespace lagoon
