#pragma once

// A graph of ONNX Runtime as a serialised onnx::ModelProto.

#include <cstdint>
#include <string>
#include <vector>

#include "ort/ort_abi.h"

namespace lagoon::plugin {

/// A serialised onnx::ModelProto, and the names that link it to the node that ONNX Runtime makes of
/// the graph.
struct ConvertedGraph {
  std::string bytes;
  std::vector<std::string> inputs;  // without constants, in order
  std::vector<std::string> outputs;
};

/// Most bytes of constants: a protobuf holds at most 2 GB.
inline constexpr std::size_t kMostConstantBytes = std::size_t{1900} << 20;

/// Names, types, nodes, attributes, bodies and constants, whose bytes are copied. Throws Failed if
/// the graph has what a model for Lagoon cannot have (strings, sequences, more than
/// kMostConstantBytes), naming the value.
ConvertedGraph ConvertGraph(const Graph* graph);

}  // namespace lagoon::plugin
