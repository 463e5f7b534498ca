#pragma once

// A graph of ONNX Runtime as a serialised onnx::ModelProto.

#include <cstdint>
#include <string>
#include <vector>

#include "ort/borrowed_weights.h"
#include "ort/ort_abi.h"

namespace lagoon::plugin {

/// A serialised onnx::ModelProto, and the names that link it to the node that ONNX Runtime makes of
/// the graph.
struct ConvertedGraph {
  std::string bytes;
  std::vector<std::string> inputs;  // without constants, in order
  std::vector<std::string> outputs;
};

/// Most bytes of constants inside the model: a protobuf holds at most 2 GB.
inline constexpr std::size_t kMostConstantBytes = std::size_t{1900} << 20;

/// Names, types, nodes, attributes, bodies and constants. `weights` gets the places of the large
/// constants, which are external data of the model then; null: all of them are copied into the
/// model. Throws Failed if the graph has what a model for Lagoon cannot have (strings, sequences,
/// more than kMostConstantBytes), naming the value.
ConvertedGraph ConvertGraph(const Graph* graph, BorrowedWeights* weights);

}  // namespace lagoon::plugin
