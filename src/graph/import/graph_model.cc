#include "graph/import/graph_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "graph/fuse/normalize_softmax.h"
#include "graph/graph_edit.h"
#include "graph/opaque/opaque.h"
#include "graph/ops/infer.h"

namespace lagoon {
namespace {

/// Inputs of so many integers or bools decide a graph, if a value that shapes need is computed from
/// them. A value that is computed from larger inputs is computed by a part of its own instead, so
/// that not every request of other contents needs a new plan.
constexpr std::int64_t kMaxDerivedElements = 16;

/// The values that a node reads: elements in place of sequences.
void AddTensors(const Graph& graph, std::span<const ValueId> inputs, std::vector<ValueId>& to) {
  for (const ValueId id : inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::kTensor) {
      to.push_back(id);
    } else {
      AddTensors(graph, value.elements, to);
    }
  }
}

bool IsSmall(const Value& value, std::int64_t most) { return ElementCount(value.dims) <= most; }

/// Takes from a graph the nodes that are inferred already, and the values of the others.
class NextGraph {
 public:
  /// `from`: without `nodes`.
  NextGraph(const Graph& from, std::vector<Node> nodes) : from_(from) {
    graph_.name = from.name;
    graph_.opset = from.opset;
    graph_.engine = from.engine;
    graph_.values = from.values;
    graph_.nodes = std::move(nodes);
    for (Value& value : graph_.values) {
      value.sizes = kNoValue;
      value.unsized = false;
    }
    made_.resize(from.values.size(), false);
    for (const Node& node : graph_.nodes) {
      for (const ValueId output : node.outputs) {
        if (output != kNoValue) made_[static_cast<std::size_t>(output)] = true;
      }
    }
  }

  /// Whether the next part computes the value.
  bool Makes(ValueId id) const { return made_[static_cast<std::size_t>(id)]; }

  /// What it reads from the part before: no constants.
  const std::vector<ValueId>& AddInputs() {
    std::vector<ValueId> read;
    for (const Node& node : graph_.nodes) AddTensors(from_, node.inputs, read);
    std::set<ValueId> known;
    for (const ValueId id : read) {
      if (Makes(id) || from_.value(id).constant || !known.insert(id).second) continue;
      graph_.inputs.push_back(id);
    }
    return graph_.inputs;
  }

  void AddOutput(ValueId id) { graph_.outputs.push_back(id); }
  Graph Take() { return std::move(graph_); }

 private:
  const Graph& from_;
  Graph graph_;
  std::vector<bool> made_;  // by value
};

/// The index of `id` among the outputs of the graph, to which it is added if need be.
std::size_t OutputIndex(Graph& graph, ValueId id) {
  const auto known = std::ranges::find(graph.outputs, id);
  const auto index = static_cast<std::size_t>(known - graph.outputs.begin());
  if (known == graph.outputs.end()) graph.outputs.push_back(id);
  return index;
}

/// Why the engine does not run the node either. (For a first part, WholeModel adds this.)
void AddEngineError(const LaterNodes& later, Error& error) {
  if (later.engine) return;
  error.message +=
      fmt::format("; the engine cannot run it either: {}", later.engine.error().message);
}

/// Makes the values of actual dims outputs of the graph.
void AddSizes(ModelPart& part) {
  const std::size_t outputs = part.graph.outputs.size();
  for (std::size_t i = 0; i < outputs; ++i) {
    const ValueId sizes = part.graph.value(part.graph.outputs[i]).sizes;
    if (sizes == kNoValue) {
      part.links.sizes.emplace_back();
    } else {
      part.links.sizes.emplace_back(OutputIndex(part.graph, sizes));
    }
  }
  part.links.sizes.resize(part.graph.outputs.size());
}

}  // namespace

Result<ModelPart> GraphModel::Import(const GraphInputs& given,
                                     std::vector<std::size_t>* deciding) const {
  const auto import = [&](Assume assume, bool& assumed) {
    return WithoutExceptions([&] { return ImportGraph(given, deciding, assume, assumed); });
  };
  const std::size_t decided = deciding == nullptr ? 0 : deciding->size();
  bool assumed = false;
  Result<ModelPart> part = import(Assume::kAllowed, assumed);
  // A shape that a run on made-up data gave may not fit the nodes behind it, although those of real
  // data do: a search that finds nothing.
  const bool decides = deciding != nullptr && deciding->size() > decided;
  if (!part && assumed && !decides) {
    Result<ModelPart> without = import(Assume::kNever, assumed);
    if (without) part = std::move(without);
  }
  if (!part) return Annotate(path_, std::move(part).error());
  return part;
}

void GraphModel::ReleaseWeights() const {
  for (const Value& value : graph_.values) {
    if (value.constant) value.constant->bytes.Release();
  }
}

Identity GraphModel::WeightsIdentity() const {
  std::string all;
  for (const Value& value : graph_.values) {
    if (value.constant && value.constant->bytes.deferred()) {
      all += ToString(value.constant->bytes.identity());
    }
  }
  return all.empty() ? Identity{} : IdentityOf(all);
}

std::size_t GraphModel::bytes() const {
  constexpr std::size_t kNode = 512, kValue = 128;  // with their names and small vectors
  return graph_.nodes.size() * kNode + graph_.values.size() * (sizeof(Value) + kValue);
}

Result<ModelPart> GraphModel::ImportGraph(const GraphInputs& given,
                                          std::vector<std::size_t>* deciding, Assume assume,
                                          bool& assumed) const {
  LAGOON_RETURN_IF_ERROR(Check(given));
  ModelPart part;
  part.graph = graph_;
  part.graph.work = given.work;
  ByteBudget budget = budget_;
  LAGOON_RETURN_IF_ERROR(SetInputs(part.graph, given, budget));
  LaterNodes later;
  later.assume = assume;
  later.unrolled = unrolled_before_;
  const std::size_t decided = deciding == nullptr ? 0 : deciding->size();
  later.who_knows = [&](const Node& reader, ValueId missing) {
    const std::vector<std::size_t> found = DecidingInputs(part.graph, reader, missing);
    if (deciding != nullptr) deciding->insert(deciding->end(), found.begin(), found.end());
    if (!found.empty()) return Knows::kRequest;
    const auto& inputs = part.graph.inputs;
    return std::ranges::find(inputs, missing) != inputs.end() ? Knows::kNeither : Knows::kLaterPart;
  };
  const Status inferred = InferShapes(part.graph, budget, &later);
  assumed = later.assumed;
  const std::size_t found = deciding == nullptr ? 0 : deciding->size();
  if (!inferred && found > decided) {
    // The request will say what it decides, but not mend this.
    const Status known = CheckOps(graph_.nodes, part.graph);
    if (!known) deciding->resize(decided);
    if (!known) return tl::unexpected(known.error());
  }
  if (!inferred) {
    Error error = inferred.error();
    if (parts_before_ > 0) AddEngineError(later, error);
    return tl::unexpected(Explained(given, std::move(error)));
  }
  if (!later.nodes.empty()) {
    LAGOON_RETURN_IF_ERROR(CheckOps(later.nodes, part.graph));
    const bool stuck = part.graph.nodes.empty() || parts_before_ + 1 >= kMaxParts;
    if (stuck) return tl::unexpected(Explained(given, later.why.error()));
    part.links.next = MakeNextPart(part, later);
    part.links.next->why = later.why.error();
  } else {
    part.links.results = output_numbers_;
  }
  AddSizes(part);
  MergeOpaque(part.graph);
  NormalizeSoftmax(part.graph);
  Compact(part.graph);
  return part;
}

/// Without an engine: fails if one of the nodes, which are not inferred yet, has an unknown op and
/// will run. `graph` has their values.
Status GraphModel::CheckOps(std::span<const Node> nodes, Graph& graph) const {
  if (graph.engine != nullptr) return {};
  return FindUnknownOps(graph, nodes, graph.outputs, Branches::kCertain);
}

bool GraphModel::HasUnknownOps() const {
  Graph named;
  named.opset = graph_.opset;
  return !FindUnknownOps(named, graph_.nodes, graph_.outputs, Branches::kAll);
}

NextPart GraphModel::MakeNextPart(ModelPart& part, LaterNodes& later) const {
  const std::shared_ptr<GraphModel> model(new GraphModel(options_, path_));
  NextGraph next(part.graph, std::move(later.nodes));
  std::vector<ValueId> results;
  for (std::size_t i = 0; i < part.graph.outputs.size(); ++i) {
    const ValueId output = part.graph.outputs[i];
    if (!next.Makes(output)) {
      results.push_back(output);
      part.links.results.push_back(output_numbers_[i]);
      continue;
    }
    next.AddOutput(output);
    model->outputs_.push_back(outputs_[i]);
    model->output_numbers_.push_back(output_numbers_[i]);
  }
  part.graph.outputs = std::move(results);
  NextPart result;
  for (const ValueId id : next.AddInputs()) {
    const Value& value = part.graph.value(id);
    DeclaredTensor& input = model->inputs_.emplace_back();
    input.name = value.name;
    input.type = value.type;
    input.dims = value.dims;
    if (value.sizes != kNoValue) std::ranges::fill(input.dims, -1);
    if (value.unsized) input.dims.clear();
    input.shape_known = !value.unsized;
    input.symbols.resize(input.dims.size());
    const auto own = std::ranges::find(graph_.inputs, id);
    if (own != graph_.inputs.end()) {
      result.sources.push_back({true, static_cast<std::size_t>(own - graph_.inputs.begin())});
    } else {
      result.sources.push_back({false, OutputIndex(part.graph, id)});
    }
  }
  model->graph_ = next.Take();
  Compact(model->graph_);
  model->budget_ = budget_;
  model->parts_before_ = parts_before_ + 1;
  model->unrolled_before_ = later.unrolled;
  result.model = model;
  return result;
}

Status GraphModel::SetInputs(Graph& graph, const GraphInputs& given, ByteBudget& budget) const {
  std::vector<ValueId> open;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    Value& value = graph.value(graph.inputs[i]);
    value.dims = given.dims[i];
    value.shape_known = true;
    const std::string label = "input " + Quoted(value.name);
    const Result<std::size_t> bytes = CheckedBytes(value.dims, value.type);
    if (!bytes) return Annotate(label, bytes.error());
    LAGOON_RETURN_IF_ERROR(budget.Charge(*bytes, label));
    const auto contents = given.values.find(i);
    if (contents == given.values.end()) {
      open.push_back(graph.inputs[i]);
    } else {
      LAGOON_RETURN_IF_ERROR(FixInput(value, contents->second));
      value.from_request = true;
    }
  }
  graph.inputs = std::move(open);
  return {};
}

/// The inputs whose contents are to be given because `reader` must know those of `value`: those
/// from which it is computed. None if one of them is too large, or is no integer or bool.
std::vector<std::size_t> GraphModel::DecidingInputs(const Graph& graph, const Node& reader,
                                                    ValueId value) const {
  std::map<ValueId, const Node*> producers;
  for (const Node& node : graph.nodes) {
    for (const ValueId output : node.outputs) producers[output] = &node;
  }
  const auto is_input = [&](ValueId id) {
    return std::ranges::find(graph_.inputs, id) != graph_.inputs.end();
  };
  std::set<ValueId> sources;
  std::vector<ValueId> open{value};
  // An expansion of `reader` computes it.
  if (!is_input(value) && !producers.contains(value)) AddTensors(graph, reader.inputs, open);
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || graph.value(id).constant || !sources.insert(id).second) continue;
    const auto producer = producers.find(id);
    if (producer == producers.end()) continue;
    AddTensors(graph, producer->second->inputs, open);
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId id = graph_.inputs[i];
    if (!sources.contains(id)) continue;
    const bool itself = id == value && IsSmall(graph.value(id), kMaxDecidingElements) &&
                        graph.value(id).type != DataType::kString;
    const bool derived =
        IsSmall(graph.value(id), kMaxDerivedElements) &&
        (IsInteger(graph.value(id).type) || graph.value(id).type == DataType::kBool);
    if (!itself && !derived) return {};
    found.push_back(i);
  }
  return found;
}

/// `error`, with a note if dims of the same name have different sizes.
Error GraphModel::Explained(const GraphInputs& given, Error error) const {
  std::map<std::string, std::pair<std::int64_t, const DeclaredTensor*>> sizes;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    for (std::size_t axis = 0; axis < inputs_[i].symbols.size(); ++axis) {
      const std::string& symbol = inputs_[i].symbols[axis];
      if (symbol.empty()) continue;
      const std::int64_t size = given.dims[i][axis];
      const auto [first, is_new] = sizes.emplace(symbol, std::pair(size, &inputs_[i]));
      if (is_new || first->second.first == size) continue;
      error.message += fmt::format(
          " (dimension {} is {} in input {} and {} in input {})", Quoted(symbol),
          first->second.first, Quoted(first->second.second->name), size, Quoted(inputs_[i].name));
      return error;
    }
  }
  return error;
}

Status GraphModel::FixInput(Value& value, const Constant& constant) {
  if (constant.type != value.type || constant.dims != value.dims) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("input {} is {} {}; it is to be fixed to {} {}", Quoted(value.name),
                            OipName(value.type), ToString(value.dims), OipName(constant.type),
                            ToString(constant.dims)));
  }
  value.constant = constant;
  return {};
}

}  // namespace lagoon
