#include <optional>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

// Adds input `side` of the Add node `add` to the bias of the node that computes the other side.
bool TryFuse(GraphEditor& editor, std::size_t add, std::size_t side) {
  const Node& node = editor.node(add);
  const Value& constant = editor.value(node.inputs[side]);
  const ValueId other = node.inputs[1 - side];
  const std::optional<std::size_t> producer = editor.SoleProducer(other);
  if (!constant.constant || !producer || !IsLinear(editor.node(*producer))) return false;
  const Node& linear = editor.node(*producer);
  if (linear.fused.activation != ActivationKind::kNone) return false;
  const Dims& dims = editor.value(other).dims;
  if (!IsPerChannel(constant.dims, dims, ChannelAxis(linear, dims.size()))) return false;
  std::vector<double> bias = BiasOf(editor, linear);
  const std::span<const float> added = constant.constant->floats();
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] += added[added.size() == 1 ? 0 : i];
  SetBias(editor, *producer, bias);
  editor.Absorb(*producer, add);
  return true;
}

}  // namespace

std::size_t ChannelAxis(const Node& node, std::size_t rank) {
  return IsConvolution(node) ? rank - 2 : 0;
}

bool IsPerChannel(const Dims& constant, const Dims& dims, std::size_t channel_axis) {
  if (constant.size() > dims.size()) return false;
  for (std::size_t back = 0; back < constant.size(); ++back) {
    const std::int64_t size = constant[constant.size() - 1 - back];
    const bool channels = back == channel_axis && size == dims[dims.size() - 1 - back];
    if (size != 1 && !channels) return false;
  }
  return true;
}

void FuseBias(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    if (editor.node(i).op != "Add") continue;
    if (!TryFuse(editor, i, 1)) TryFuse(editor, i, 0);
  }
  editor.Finish();
}

}  // namespace lagoon
