#pragma once

// Nodes that an engine runs, because Lagoon has no kernels for them (engine/engine.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine_host.h"
#include "graph/graph.h"

namespace lagoon {

/// What an opaque node computes: nodes as the file has them, with the constants that they read.
/// Immutable once a node has it.
struct OpaqueGraph {
  /// Inputs and outputs are those of the opaque node, in the same order. Inputs have types and the
  /// dims for which the graph was made; only their ranks count. Empty if `file` is set.
  Graph graph;
  std::string file;              // a whole model
  std::vector<std::string> ops;  // sorted, each once
  std::string why;               // why Lagoon does not run them: the message of the first error
  std::shared_ptr<EngineHost> engine;
};

/// The op of opaque nodes. Such a node reads and writes tensors with known shapes. All its inputs
/// are present; an output that no node reads may be left out.
inline constexpr const char* kOpaqueOp = "Opaque";

/// Appends to `graph` an opaque node in place of `node`, which Lagoon does not run because of
/// `why`. Asks graph.engine for the types and shapes of the outputs. Where the engine does not know
/// a shape, the node runs once on zeros: each later run fails if its shapes differ from those.
/// kUnimplemented if an input or output is not a tensor of fixed shape, or the engine does not take
/// the node either.
Status AppendOpaque(Graph& graph, const Node& node, const Error& why);

/// Merges opaque nodes: two nodes become one if one reads what the other computes, both are written
/// in the same opset, and no path through other nodes leads from one to the other. So the subgraphs
/// are as large as they can be while they stay convex. Takes a graph with inferred shapes.
void MergeOpaque(Graph& graph);

/// Whether the model for an engine fixes the dims of its inputs.
enum class InputDims : std::uint8_t { kFixed, kOpen };

/// The graph of an OpaqueGraph as a serialised onnx::ModelProto, weights included. kUnimplemented
/// if a part cannot be written; kResourceExhausted beyond protobuf's 2 GiB.
Result<std::string> ToOnnx(const Graph& graph, InputDims dims);

/// Types and shapes of the outputs for inputs of these types and dims; `data` is ignored. Where the
/// engine does not know a shape, runs the model on zeros, for 30 s at most.
Result<std::vector<EngineTensor>> OutputsOf(EngineModel& model, std::vector<EngineTensor> inputs);

/// The op for people: "Det", "ai.onnx.ml.TreeEnsembleRegressor".
std::string OpName(const Node& node);

}  // namespace lagoon
