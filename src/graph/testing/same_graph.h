#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"

namespace lagoon::testing {

/// A graph as text: each node with its op, attributes and inputs, where values have numbers in the
/// order of their appearance and constants are shown with their contents. Names do not matter.
class GraphText {
 public:
  explicit GraphText(const Graph& graph) : graph_(graph) {
    for (const ValueId input : graph.inputs) text_ += "input " + Of(input) + "\n";
    for (const Node& node : graph.nodes) {
      text_ += node.op;
      for (const auto& [name, value] : node.attributes) text_ += " " + name + "=" + Of(value);
      for (const ValueId input : node.inputs) text_ += " " + Of(input);
      if (node.fused.residual != kNoValue) text_ += " residual " + Of(node.fused.residual);
      text_ +=
          " " + node.fused.op + std::to_string(static_cast<int>(node.fused.activation)) + " ->";
      for (const ValueId output : node.outputs) text_ += " " + Of(output);
      text_ += "\n";
    }
    for (const ValueId output : graph.outputs) text_ += "output " + Of(output) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  static std::string Of(const Constant& constant) {
    std::string text = std::string(OipName(constant.type)) + ToString(constant.dims);
    for (const std::byte byte : *constant.bytes)
      text += "." + std::to_string(static_cast<int>(byte));
    return text;
  }
  static std::string Of(const Attribute& attribute) {
    if (const auto* const number = std::get_if<std::int64_t>(&attribute)) {
      return std::to_string(*number);
    }
    if (const auto* const number = std::get_if<float>(&attribute)) return std::to_string(*number);
    if (const auto* const text = std::get_if<std::string>(&attribute)) return *text;
    if (const auto* const list = std::get_if<std::vector<std::int64_t>>(&attribute)) {
      return ToString(*list);
    }
    if (const auto* const constant = std::get_if<Constant>(&attribute)) return Of(*constant);
    return "?";
  }
  std::string Of(ValueId id) {
    if (id == kNoValue) return "-";
    const Value& value = graph_.value(id);
    if (value.constant) return Of(*value.constant);
    const auto [found, is_new] = numbers_.try_emplace(id, numbers_.size());
    return "%" + std::to_string(found->second) + std::string(OipName(value.type)) +
           ToString(value.dims);
  }

  const Graph& graph_;
  std::map<ValueId, std::size_t> numbers_;
  std::string text_;
};

/// Expects that both models are the same graph when they are loaded.
inline void ExpectSameGraph(const ModelBuilder& actual, const ModelBuilder& expected) {
  const Result<Graph> a = actual.Load(), b = expected.Load();
  ASSERT_TRUE(a.has_value()) << a.error().message;
  ASSERT_TRUE(b.has_value()) << b.error().message;
  EXPECT_EQ(GraphText(*a).text(), GraphText(*b).text());
}

}  // namespace lagoon::testing
