#include "graph/fuse/normalize_softmax.h"

#include <algorithm>

namespace lagoon {
namespace {

constexpr std::int64_t kOneAxisSince = 13;

ValueId AddValue(Graph& graph, std::string name, DataType type, const Dims& dims) {
  Value value;
  value.name = std::move(name);
  value.type = type;
  value.dims = dims;
  value.shape_known = true;
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

// The single axis that a softmax over the axes from `from` on is equivalent to, or -1.
std::int64_t OnlyAxis(const Dims& dims, std::int64_t from) {
  std::int64_t only = from;
  int long_axes = 0;
  for (auto i = static_cast<std::size_t>(from); i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    only = static_cast<std::int64_t>(i);
    ++long_axes;
  }
  return long_axes > 1 ? -1 : only;
}

void Flatten(Graph& graph, Node softmax, std::vector<Node>& nodes) {
  const Dims dims = graph.value(softmax.inputs[0]).dims;
  const DataType type = graph.value(softmax.inputs[0]).type;
  const std::int64_t axis = softmax.Int("axis", 1);
  const Dims flat{ElementCount(Dims(dims.begin(), dims.begin() + axis)),
                  ElementCount(Dims(dims.begin() + axis, dims.end()))};
  const ValueId x = AddValue(graph, softmax.name + "_flat_input", type, flat);
  const ValueId y = AddValue(graph, softmax.name + "_flat_output", type, flat);
  nodes.push_back({softmax.name + "_flatten", "Reshape", softmax.inputs, {x}, {}, {}});
  Node shape_back{softmax.name + "_unflatten", "Reshape", {y}, softmax.outputs, {}, {}};
  softmax.inputs = {x};
  softmax.outputs = {y};
  softmax.attributes["axis"] = std::int64_t{1};
  nodes.push_back(std::move(softmax));
  nodes.push_back(std::move(shape_back));
}

}  // namespace

void NormalizeSoftmax(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    const bool softmax = node.op == "Softmax" || node.op == "LogSoftmax" || node.op == "Hardmax";
    if (!softmax || graph.OpsetOf(node) >= kOneAxisSince) {
      nodes.push_back(std::move(node));
      continue;
    }
    const std::int64_t axis = OnlyAxis(graph.value(node.inputs[0]).dims, node.Int("axis", 1));
    if (axis < 0) {
      Flatten(graph, std::move(node), nodes);
      continue;
    }
    node.attributes["axis"] = axis;
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace lagoon
