#pragma once

// For tests: runs an ONNX model that was built in memory.

#include <gtest/gtest.h>

#include <vector>

#include "graph/testing/model_builder.h"
#include "program/testing/typed_graph.h"

namespace lagoon::testing {

/// The outputs of one run; none and a test failure if the model is refused.
inline std::vector<Bytes> RunModel(const ModelBuilder& model, const std::vector<Bytes>& inputs) {
  const Result<Graph> graph = model.Load();
  if (graph) return RunTyped(*graph, inputs);
  ADD_FAILURE() << graph.error().message;
  return std::vector<Bytes>(static_cast<std::size_t>(model.proto.graph().output_size()));
}

}  // namespace lagoon::testing
