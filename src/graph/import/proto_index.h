#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Where each name of a GraphProto is defined, and which nodes the outputs need. Borrows the proto.
struct ProtoIndex {
  std::unordered_map<std::string_view, int> initialisers;  // name -> index
  /// The nodes that an output needs, in topological order; otherwise in the order of the file.
  std::vector<int> order;
};

/// kInvalidArgument for a name defined twice, a name without a definition, and a cycle.
Result<ProtoIndex> IndexGraph(const onnx::GraphProto& graph, std::int64_t opset);

/// A node's name, made up from op and index if it has none.
std::string NodeName(const onnx::NodeProto& node, int index);

/// "node 'Conv_3' (Conv, opset 13)".
std::string NodeLabel(const onnx::NodeProto& node, int index, std::int64_t opset);

}  // namespace lagoon
