#include <optional>

#include "graph/fuse/fuse.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

bool IsLimit(const Node& node) { return node.op == "Relu" || node.op == "Clip"; }

/// True for functions that linear nodes, ChannelAffine and Slice apply.
bool IsFunction(const Node& node) {
  const elementwise::UnaryRow* row = elementwise::FindUnary(node.op);
  return row != nullptr && row->fuses;
}

/// True if `node` can apply `activation` in the same kernel.
bool Takes(const Node& node, const Node& activation) {
  if (node.fused.activation != ActivationKind::kNone || node.fused.residual_last) return false;
  if (node.op == "Slice") return IsFunction(activation);
  const bool arithmetic =
      node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div";
  if (arithmetic) return node.op == "Add" || IsFunction(activation);
  return IsLinear(node) || node.op == "ChannelAffine";
}

void SetActivation(const Node& activation, Fused& fused) {
  if (activation.op == "Relu") {
    fused.activation = ActivationKind::kRelu;
  } else if (activation.op == "Clip") {
    fused.activation = ActivationKind::kClip;
    fused.low = activation.Float("min", 0);
    fused.high = activation.Float("max", 0);
  } else {
    fused.activation = ActivationKind::kOp;
    fused.op = activation.op;
    fused.attributes = activation.attributes;
  }
}

}  // namespace

void FuseActivations(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    const Node& node = editor.node(i);
    if (!(IsLimit(node) || IsFunction(node)) || node.inputs.size() > 1) continue;
    if (editor.value(node.inputs[0]).type != DataType::kFloat32) continue;
    const std::optional<std::size_t> producer = editor.SoleProducer(node.inputs[0]);
    if (!producer || !Takes(editor.node(*producer), node)) continue;
    SetActivation(node, editor.node(*producer).fused);
    editor.Absorb(*producer, i);
  }
  editor.Finish();
}

}  // namespace lagoon
