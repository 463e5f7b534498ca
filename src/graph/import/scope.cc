#include "graph/import/scope.h"

#include <unordered_set>
#include <utility>

#include "graph/import/tensor_import.h"

namespace lagoon {

Status Scope::Index() {
  LAGOON_ASSIGN_OR_RETURN(
      index_, IndexGraph(proto_, graph_.opset, is_body() ? GraphKind::kBody : GraphKind::kModel));
  return {};
}

ValueId Scope::Find(const std::string& name) const {
  const auto known = ids_.find(name);
  return known == ids_.end() ? kNoValue : known->second;
}

ValueId Scope::Add(const std::string& name) {
  const auto id = static_cast<ValueId>(graph_.values.size());
  graph_.values.emplace_back().name = name;
  ids_.emplace(name, id);
  return id;
}

ValueId Scope::Capture(const std::string& name, ValueId of) {
  const ValueId id = Add(name);
  const Value& from = outer_->graph_.value(of);
  Value& value = graph_.value(id);
  value.type = from.type;
  if (!from.constant) {
    graph_.inputs.push_back(id);
    captured_.push_back(of);
    return id;
  }
  value.dims = from.dims;
  value.shape_known = true;
  value.constant = from.constant;
  return id;
}

Status Scope::AddFormalInputs() {
  for (const onnx::ValueInfoProto& input : proto_.input()) {
    if (index_.initialisers.contains(input.name())) continue;
    const ValueId id = Add(input.name());
    Declare(input, graph_.value(id));
    graph_.inputs.push_back(id);
  }
  return {};
}

void Declare(const onnx::ValueInfoProto& info, Value& value) {
  if (!info.type().has_tensor_type() || value.shape_known) return;
  const onnx::TypeProto::Tensor& type = info.type().tensor_type();
  value.type = ToDataType(type.elem_type()).value_or(value.type);
  value.dims.clear();
  for (const auto& dim : type.shape().dim()) {
    value.dims.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
  }
}

void AttachBodies(const Graph& outer, std::vector<ReadBody> bodies, Node& node) {
  std::vector<ValueId> all;
  std::unordered_set<ValueId> seen;
  for (const ReadBody& body : bodies) {
    for (const ValueId id : body.captured) {
      if (seen.insert(id).second) all.push_back(id);
    }
  }
  for (ReadBody& body : bodies) {
    Graph& graph = *body.graph;
    std::unordered_map<ValueId, ValueId> inner;  // by captured value
    const std::size_t formal = graph.inputs.size() - body.captured.size();
    for (std::size_t i = 0; i < body.captured.size(); ++i) {
      inner[body.captured[i]] = graph.inputs[formal + i];
    }
    graph.inputs.resize(formal);
    for (const ValueId id : all) {
      const auto [place, unused] = inner.emplace(id, static_cast<ValueId>(graph.values.size()));
      if (unused) {
        Value& value = graph.values.emplace_back();
        value.name = outer.value(id).name;
        value.type = outer.value(id).type;
      }
      graph.inputs.push_back(place->second);
    }
    node.bodies.emplace(std::move(body.attribute), std::move(body.graph));
  }
  node.captured = all.size();
  node.inputs.insert(node.inputs.end(), all.begin(), all.end());
}

}  // namespace lagoon
