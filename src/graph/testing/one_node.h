#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/testing/model_builder.h"

namespace lagoon::testing {

/// A model of one node. The node reads "x" (of shape `dims`) and `parameters`: initialisers that
/// `prepare` makes.
struct OneNode {
  std::string op;
  Dims dims;
  std::vector<std::string> parameters{};
  std::function<void(ModelBuilder&)> prepare = [](ModelBuilder&) {};
  std::function<void(NodeRef)> configure = [](NodeRef) {};
  std::int64_t opset = 13;
  std::size_t outputs = 1;

  Result<Graph> Import() const {
    ModelBuilder model(opset);
    model.Input("x", dims);
    prepare(model);
    std::vector<std::string> inputs{"x"};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < outputs; ++i) {
      names.push_back("y" + std::to_string(i));
      model.Output(names.back());
    }
    configure(model.Add(op, inputs, names).Name("n"));
    return model.Import();
  }

  Graph MustImport() const {
    Result<Graph> graph = Import();
    EXPECT_TRUE(graph.has_value()) << op << ": " << graph.error().message;
    return graph ? *std::move(graph) : Graph{};
  }

  Dims OutputDims(std::size_t i = 0) const {
    const Graph graph = MustImport();
    return i < graph.outputs.size() ? graph.value(graph.outputs[i]).dims : Dims{};
  }

  Node Imported() const {
    const Graph graph = MustImport();
    return graph.nodes.size() == 1 ? graph.nodes[0] : Node{};
  }

  std::string Invalid() const { return MessageOf(Import(), ErrorCode::kInvalidArgument); }
  std::string Unimplemented() const { return MessageOf(Import(), ErrorCode::kUnimplemented); }
};

}  // namespace lagoon::testing
