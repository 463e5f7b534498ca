#include <optional>

#include "graph/fuse.h"

namespace lagoon {
namespace {

bool TakesActivation(const Node& node) {
  return (IsLinear(node) || node.op == "Add") && node.fused.activation == ActivationKind::kNone;
}

}  // namespace

void FuseActivations(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    const Node& node = editor.node(i);
    if (node.op != "Relu" && node.op != "Clip") continue;
    const std::optional<std::size_t> producer = editor.SoleProducer(node.inputs[0]);
    if (!producer || !TakesActivation(editor.node(*producer))) continue;
    Fused& fused = editor.node(*producer).fused;
    if (node.op == "Relu") {
      fused.activation = ActivationKind::kRelu;
    } else {
      fused.activation = ActivationKind::kClip;
      fused.low = node.Float("min", 0);
      fused.high = node.Float("max", 0);
    }
    editor.Absorb(*producer, i);
  }
  editor.Finish();
}

}  // namespace lagoon
