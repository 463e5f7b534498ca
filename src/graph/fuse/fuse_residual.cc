#include <algorithm>
#include <optional>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

bool TakesResidual(const Node& node) {
  if (!IsLinear(node) || node.fused.residual != kNoValue) return false;
  if (node.op == "ConvTranspose") return false;  // its kernel writes pixels in another order
  // Grouped convolutions have bodies without a residual.
  return node.op != "Conv" || node.Int("group", 1) == 1;
}

bool IsResidualAdd(const GraphEditor& editor, const Node& node) {
  if (node.op != "Add" || node.fused.activation != ActivationKind::kNone) return false;
  const Value& a = editor.value(node.inputs[0]);
  const Value& b = editor.value(node.inputs[1]);
  return a.dims == b.dims && !a.constant && !b.constant;
}

void TryFuse(GraphEditor& editor, std::size_t add) {
  const std::vector<ValueId> sides = editor.node(add).inputs;
  std::optional<std::size_t> best;
  ValueId residual = kNoValue;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::optional<std::size_t> producer = editor.SoleProducer(sides[side]);
    if (!producer || !TakesResidual(editor.node(*producer)) || (best && *producer < *best))
      continue;
    best = producer;
    residual = sides[1 - side];
  }
  if (!best) return;
  // Only the Add reads the node's result, so no node before the Add waits for the node. The node
  // may move to the Add's place, after the residual, without making a cycle.
  Fused& fused = editor.node(*best).fused;
  fused.residual = residual;
  fused.residual_last = fused.activation != ActivationKind::kNone;
  editor.AbsorbAtReader(*best, add);
}

}  // namespace

void FuseResiduals(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    if (IsResidualAdd(editor, editor.node(i))) TryFuse(editor, i);
  }
  editor.Finish();
}

}  // namespace lagoon
