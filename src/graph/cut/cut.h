#pragma once

// An ONNX file cut at the boundaries of its nodes into ONNX files, one for each part (SPLIT 4.1).

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Where a part ends.
struct CutPoint {
  /// Values of the file that are complete here. Names that no node of the file computes are
  /// skipped: fusion has its own values.
  std::vector<std::string> complete;
  std::string after;  // what the part ends with, for messages: "op 5 'conv_2'"
};

/// The nodes of a file by part.
struct PartNodes {
  /// By part, in topological order. The nodes that a part's `complete` needs belong to this part or
  /// an earlier one, and the last part has the rest. So each part reads only what it or an earlier
  /// part computes.
  std::vector<std::vector<int>> nodes;
  /// Nodes that read only constants. They belong to no part; each part that needs one has a copy.
  std::vector<bool> constant;
};

/// Shares the nodes of a graph among parts. There is one part more than `cuts`.
/// kUnimplemented names a node with bodies (If, Loop, Scan). kInvalidArgument: a part would have no
/// node, because the ops of a plan between two cuts compute no value of the file; the message names
/// the part and its last op.
Result<PartNodes> ShareNodes(const onnx::GraphProto& graph, std::int64_t opset,
                             std::span<const CutPoint> cuts);

/// The types of values, by name.
using ValueTypes = std::unordered_map<std::string, onnx::TypeProto>;

/// The types that the file declares, and for other values those of `known`, a graph of the same
/// file. A value that neither has is left out. `fixed`: whether the shapes in `known` hold for all
/// inputs that the model takes; if not, only its element types and ranks are used.
ValueTypes TypesOf(const onnx::GraphProto& graph, const Graph& known, bool fixed);

/// A file of a part.
struct PartFile {
  std::string path;
  std::vector<std::string> inputs;   // of the model, or outputs of earlier parts
  std::vector<std::string> outputs;  // of the model, or read by later parts
  std::size_t nodes = 0;
};

/// Writes each part of the file at `path` to `folder`, which is created: part-1.onnx, part-2.onnx,
/// ... Run one after the other, the parts compute what the file computes. Weights are copied to the
/// parts that read them, also from external data. `known` and `fixed`: see TypesOf. `max_bytes`:
/// limit for the memory of the file. Errors as ShareNodes; kUnimplemented for a value between parts
/// whose type is not known, and for sparse weights; kResourceExhausted: a part has more than
/// protobuf's 2 GiB; kInternal: a file cannot be written. Messages have the paths.
Result<std::vector<PartFile>> CutOnnx(const std::string& path, std::span<const CutPoint> cuts,
                                      const Graph& known, bool fixed, const std::string& folder,
                                      std::size_t max_bytes = ImportOptions().max_bytes);

}  // namespace lagoon
