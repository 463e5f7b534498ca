#pragma once

// Nodes that an engine runs, because Lagoon has no kernels for them (engine/engine.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine_host.h"
#include "engine/engine_outputs.h"
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
  /// The nodes inside whose output shapes are assumed (EngineOutputs::assumed), by name.
  std::vector<std::string> assumed = {};
  /// The whole of `graph`, loaded for the dims of its inputs. Null: lowering loads it.
  std::shared_ptr<EngineModel> model = {};
};

/// The op of opaque nodes. Such a node reads and writes tensors with known shapes. All its inputs
/// are present; an output that no node reads may be left out.
inline constexpr const char* kOpaqueOp = "Opaque";

/// Appends to `graph` an opaque node in place of `node`, which Lagoon does not run because of
/// `why`. Asks graph.engine for the types and shapes of the outputs (OutputsOf). True: a shape is
/// assumed. kUnimplemented if an input or output is not a tensor, or the engine does not take the
/// node either.
Result<bool> AppendOpaque(Graph& graph, const Node& node, const Error& why, Assume assume);

/// Merges opaque nodes: two nodes become one if one reads what the other computes, both are written
/// in the same opset, and no path through other nodes leads from one to the other. So the subgraphs
/// are as large as they can be while they stay convex. Takes a graph with inferred shapes.
void MergeOpaque(Graph& graph);

/// Whether the model for an engine fixes the dims of its inputs.
enum class InputDims : std::uint8_t { kFixed, kOpen };

/// The graph of an OpaqueGraph as a serialised onnx::ModelProto, weights included. kUnimplemented
/// if a part cannot be written; kResourceExhausted beyond protobuf's 2 GiB.
Result<std::string> ToOnnx(const Graph& graph, InputDims dims);

/// The model of an opaque node, for running it. Plans of other shapes share a model that is not
/// loaded yet.
Result<std::shared_ptr<EngineModel>> LoadOpaque(const OpaqueGraph& opaque);

/// The op for people: "Det", "ai.onnx.ml.TreeEnsembleRegressor".
std::string OpName(const Node& node);

}  // namespace lagoon
