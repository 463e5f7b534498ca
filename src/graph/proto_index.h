#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Who defines which name in a GraphProto, and which nodes the outputs need. Borrows the proto.
struct ProtoIndex {
  std::unordered_map<std::string_view, int> initialisers;  // name -> index
  std::vector<int> order;  // nodes that an output needs, in topological order, else as in the file
};

/// kInvalidArgument for a name defined twice, a name that nothing defines, and a cycle.
Result<ProtoIndex> IndexGraph(const onnx::GraphProto& graph, std::int64_t opset);

/// A node's name, made up from op and index if it has none.
std::string NodeName(const onnx::NodeProto& node, int index);

/// "node 'Conv_3' (Conv, opset 13)".
std::string NodeLabel(const onnx::NodeProto& node, int index, std::int64_t opset);

}  // namespace lagoon
