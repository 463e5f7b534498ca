#pragma once

// What a model computes whose inputs are all constant: folding computes it at import.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"
#include "plan/element.h"

namespace lagoon::testing {

/// The contents of output `i`, which must be constant after import; empty, and a failed test, if it
/// is not. Sets `dims`.
inline std::vector<double> Folded(const Result<Graph>& graph, std::size_t i = 0,
                                  Dims* dims = nullptr) {
  std::vector<double> numbers;
  if (!graph) {
    ADD_FAILURE() << graph.error().message;
    return numbers;
  }
  const Value& value = graph->value(graph->outputs.at(i));
  if (!value.constant) {
    ADD_FAILURE() << "output " << value.name << " is not constant: " << Ops(*graph);
    return numbers;
  }
  if (dims != nullptr) *dims = value.dims;
  const auto count = static_cast<std::size_t>(ElementCount(value.dims));
  EXPECT_EQ(value.constant->bytes.size(), count * SizeOf(value.type));
  for (std::size_t k = 0; k < count; ++k) {
    numbers.push_back(ElementAsDouble(value.type, value.constant->bytes->data(), k));
  }
  return numbers;
}

inline std::vector<double> Folded(const ModelBuilder& model, std::size_t i = 0,
                                  Dims* dims = nullptr) {
  return Folded(model.Import(), i, dims);
}

}  // namespace lagoon::testing
