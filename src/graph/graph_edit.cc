#include "graph/graph_edit.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/text.h"

namespace lagoon {
namespace {

std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

// Marks `id` and, if it is a sequence, its elements.
void Need(const Graph& graph, ValueId id, std::vector<bool>& needed) {
  if (id == kNoValue || needed[Index(id)]) return;
  needed[Index(id)] = true;
  std::vector<ValueId> open = graph.value(id).elements;
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (next == kNoValue || needed[Index(next)]) continue;
    needed[Index(next)] = true;
    const std::vector<ValueId>& elements = graph.value(next).elements;
    open.insert(open.end(), elements.begin(), elements.end());
  }
}

// Values that the outputs need. Constants need no other value.
std::vector<bool> NeededValues(const Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (const ValueId output : graph.outputs) Need(graph, output, needed);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) {
      return id != kNoValue && needed[Index(id)] && !graph.value(id).constant;
    });
    if (!used) continue;
    for (const ValueId input : node->inputs) Need(graph, input, needed);
    for (const ValueId output : node->outputs) {
      // The first output stays even if only another one is needed.
      const bool stays =
          output == node->outputs[0] || (output != kNoValue && needed[Index(output)]);
      if (!stays || output == kNoValue || graph.value(output).sizes == kNoValue) continue;
      needed[Index(graph.value(output).sizes)] = true;
    }
    Need(graph, node->fused.residual, needed);
  }
  return needed;
}

// A remaining node keeps its first output, needed or not, because that output's shape defines what
// the node computes.
void DropUnusedNodes(Graph& graph, std::vector<bool>& needed) {
  for (Node& node : graph.nodes) {
    const ValueId first = node.outputs.empty() ? kNoValue : node.outputs[0];
    for (ValueId& output : node.outputs) {
      if (output == kNoValue) continue;
      if (!needed[Index(output)] || graph.value(output).constant) output = kNoValue;
    }
    const bool stays = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [](ValueId output) { return output != kNoValue; });
    if (stays && first != kNoValue) {
      node.outputs[0] = first;
      needed[Index(first)] = true;
    }
    DropLastOutputs(node);
  }
  std::erase_if(graph.nodes, [](const Node& node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [](ValueId output) { return output == kNoValue; });
  });
}

}  // namespace

void DropLastOutputs(Node& node) {
  if (node.op == "Split" && node.domain.empty()) return;
  while (!node.outputs.empty() && node.outputs.back() == kNoValue) node.outputs.pop_back();
}

void Compact(Graph& graph) {
  std::vector<bool> needed = NeededValues(graph);
  DropUnusedNodes(graph, needed);
  for (const ValueId input : graph.inputs) needed[Index(input)] = true;
  // Most passes of fusion find nothing to do.
  if (std::ranges::find(needed, false) == needed.end()) return;

  std::vector<ValueId> renumbered(graph.values.size(), kNoValue);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (!needed[i]) continue;
    renumbered[i] = static_cast<ValueId>(kept);
    if (kept != i) graph.values[kept] = std::move(graph.values[i]);
    ++kept;
  }
  graph.values.resize(kept);
  const auto renumber = [&](ValueId& id) {
    if (id != kNoValue) id = renumbered[Index(id)];
  };
  for (Value& value : graph.values) {
    std::for_each(value.elements.begin(), value.elements.end(), renumber);
  }
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    std::for_each(node.outputs.begin(), node.outputs.end(), renumber);
    renumber(node.fused.residual);
  }
  for (Value& value : graph.values) renumber(value.sizes);
  std::for_each(graph.inputs.begin(), graph.inputs.end(), renumber);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), renumber);
}

GraphEditor::GraphEditor(Graph& graph)
    : graph_(graph),
      producers_(graph.values.size()),
      uses_(graph.values.size(), 0),
      removed_(graph.nodes.size(), false) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) producers_[Index(output)] = i;
    }
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) ++uses_[Index(input)];
    }
    if (node.fused.residual != kNoValue) ++uses_[Index(node.fused.residual)];
  }
  // Counts two, so that a graph output never looks like a value with one reader.
  for (const ValueId output : graph.outputs) uses_[Index(output)] += 2;
}

std::optional<std::size_t> GraphEditor::Producer(ValueId value) const {
  return value == kNoValue ? std::nullopt : producers_[Index(value)];
}

std::optional<std::size_t> GraphEditor::SoleProducer(ValueId value) const {
  if (value == kNoValue || uses_[Index(value)] != 1) return std::nullopt;
  return producers_[Index(value)];
}

void GraphEditor::Absorb(std::size_t into, std::size_t reader) {
  LAGOON_CHECK(node(into).outputs.size() == 1 && node(reader).outputs.size() == 1);
  node(into).outputs = node(reader).outputs;
  producers_[Index(node(into).outputs[0])] = into;
  removed_[reader] = true;
}

void GraphEditor::AbsorbAtReader(std::size_t into, std::size_t reader) {
  LAGOON_CHECK(node(into).outputs.size() == 1 && node(reader).outputs.size() == 1);
  node(into).outputs = node(reader).outputs;
  std::swap(node(into), node(reader));
  removed_[into] = true;
}

ValueId GraphEditor::AddConstant(const Node& node, std::string_view suffix, Dims dims,
                                 const std::vector<float>& values) {
  producers_.emplace_back();
  uses_.push_back(1);
  return AddFloatConstant(graph_, node.name + std::string(suffix), std::move(dims), values);
}

ValueId GraphEditor::AddConstant(const Node& node, std::string_view suffix, Constant constant) {
  producers_.emplace_back();
  uses_.push_back(1);
  return lagoon::AddConstant(graph_, node.name + std::string(suffix), std::move(constant));
}

void GraphEditor::Finish() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (removed_[i]) continue;
    if (kept != i) graph_.nodes[kept] = std::move(graph_.nodes[i]);
    ++kept;
  }
  graph_.nodes.resize(kept);
  Compact(graph_);
}

Status ChargeValues(const Graph& graph, ByteBudget& budget) {
  for (const Value& value : graph.values) {
    LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, CheckedBytes(value.dims, value.type));
    const auto charge = [&](std::string_view what) {
      return value.constant ? budget.Charge(bytes, what) : budget.ChargeActivation(bytes, what);
    };
    // A charge that fails changes nothing. Quoting every name would take longer than the rest.
    if (!charge(value.name)) return charge(Quoted(value.name));
  }
  return {};
}

ValueId AddConstant(Graph& graph, std::string name, Constant constant) {
  Value value;
  value.name = std::move(name);
  value.type = constant.type;
  value.dims = constant.dims;
  value.shape_known = true;
  value.constant = std::move(constant);
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

ValueId AddFloatConstant(Graph& graph, std::string name, Dims dims,
                         const std::vector<float>& values) {
  LAGOON_CHECK(static_cast<std::size_t>(ElementCount(dims)) == values.size());
  return AddConstant(graph, std::move(name),
                     {DataType::kFloat32, std::move(dims),
                      std::make_shared<const ConstantData::Bytes>(BytesOf(values))});
}

}  // namespace lagoon
