#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Where each name of a GraphProto is defined, and which nodes the outputs need. Borrows the proto.
struct ProtoIndex {
  std::unordered_map<std::string_view, int> initialisers;  // name -> index
  /// The nodes that an output needs, in topological order; otherwise in the order of the file.
  std::vector<int> order;
  /// The names that these nodes, their bodies and the outputs of the graph read.
  std::unordered_set<std::string_view> read;
};

/// A body is a graph inside a node: a name that it does not define is one of a graph around it.
enum class GraphKind : std::uint8_t { kModel, kBody };

/// What a node reads inside its bodies counts as read by the node. kInvalidArgument for a name
/// defined twice, a name without a definition (not in a body), and a cycle.
Result<ProtoIndex> IndexGraph(const onnx::GraphProto& graph, std::int64_t opset,
                              GraphKind kind = GraphKind::kModel);

/// The names of the graph around `node` that its bodies read, each once.
std::vector<std::string_view> NamesCapturedBy(const onnx::NodeProto& node);

/// A node's name, made up from op and index if it has none.
std::string NodeName(const onnx::NodeProto& node, int index);

/// "node 'Conv_3' (Conv, opset 13)".
std::string NodeLabel(const onnx::NodeProto& node, int index, std::int64_t opset);

}  // namespace lagoon
