#include "graph/functions/name_scope.h"

#include <fmt/format.h>

namespace lagoon {

void NameTable::AddGraph(const onnx::GraphProto& graph) {
  for (const auto& input : graph.input()) names_.insert(input.name());
  for (const auto& tensor : graph.initializer()) names_.insert(tensor.name());
  for (const onnx::NodeProto& node : graph.node()) {
    names_.insert(node.input().begin(), node.input().end());
    names_.insert(node.output().begin(), node.output().end());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) AddGraph(attribute.g());
      for (const onnx::GraphProto& inner : attribute.graphs()) AddGraph(inner);
    }
  }
}

std::string NameTable::Fresh(const std::string& wanted) {
  if (names_.insert(wanted).second) return wanted;
  for (std::size_t& i = tried_[wanted];;) {
    std::string name = fmt::format("{}_{}", wanted, ++i);
    if (names_.insert(name).second) return name;
  }
}

const std::string& NameScope::Of(const std::string& inner) {
  static const std::string kNone;
  if (inner.empty()) return kNone;
  const auto [found, is_new] = bound_.try_emplace(inner);
  if (is_new) found->second = names_->Fresh(prefix_ + inner);
  return found->second;
}

void NameScope::Rename(onnx::NodeProto& node) {
  for (std::string& name : *node.mutable_input()) name = Of(name);
  for (std::string& name : *node.mutable_output()) name = Of(name);
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) NameScope(*this).RenameGraph(*attribute.mutable_g());
    for (onnx::GraphProto& inner : *attribute.mutable_graphs()) NameScope(*this).RenameGraph(inner);
  }
}

void NameScope::RenameGraph(onnx::GraphProto& graph) {
  // Names that the inner graph defines hide equal names around it.
  const auto define = [&](const std::string& name) { bound_.erase(name); };
  for (const auto& input : graph.input()) define(input.name());
  for (const auto& tensor : graph.initializer()) define(tensor.name());
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& name : node.output()) define(name);
  }
  for (auto& input : *graph.mutable_input()) input.set_name(Of(input.name()));
  for (auto& tensor : *graph.mutable_initializer()) tensor.set_name(Of(tensor.name()));
  for (onnx::NodeProto& node : *graph.mutable_node()) Rename(node);
  for (auto& output : *graph.mutable_output()) output.set_name(Of(output.name()));
}

}  // namespace lagoon
