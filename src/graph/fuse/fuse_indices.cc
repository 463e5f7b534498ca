#include "graph/fuse/fuse.h"

namespace lagoon {

void FuseExpandedIndices(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    Node& node = editor.node(i);
    if (node.op != "GatherElements" && node.op != "ScatterElements") continue;
    const auto producer = editor.Producer(node.inputs[1]);
    if (!producer || editor.node(*producer).op != "Expand") continue;
    const ValueId indices = editor.node(*producer).inputs[0];
    if (editor.value(indices).dims.size() != editor.value(node.inputs[1]).dims.size()) continue;
    node.inputs[1] = indices;
  }
  editor.Finish();
}

}  // namespace lagoon
