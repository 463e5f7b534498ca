#include "graph/fuse.h"

namespace lagoon {
namespace {

void ScaleWeights(GraphEditor& editor, std::size_t i, float alpha) {
  Node& node = editor.node(i);
  const Value& weights = editor.value(node.inputs[1]);
  const std::span<const float> from = weights.constant->floats();
  std::vector<float> scaled(from.begin(), from.end());
  for (float& weight : scaled) weight *= alpha;
  node.inputs[1] = editor.AddConstant(node, "_scaled", Dims(weights.dims), scaled);
}

// C is [N], [1,N], [1], [1,1] or a scalar: the shape rule refuses the rest.
void BroadcastBias(GraphEditor& editor, std::size_t i, float beta) {
  const Node& node = editor.node(i);
  const std::span<const float> from = editor.value(node.inputs[2]).constant->floats();
  std::vector<double> bias(static_cast<std::size_t>(Channels(editor, node)));
  for (std::size_t n = 0; n < bias.size(); ++n) {
    bias[n] = static_cast<double>(beta) * from[from.size() == 1 ? 0 : n];
  }
  SetBias(editor, i, bias);
}

}  // namespace

void NormalizeGemms(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    Node& node = editor.node(i);
    if (node.op != "Gemm" || !node.packed) continue;
    const float alpha = node.Float("alpha", 1);
    if (alpha != 1) ScaleWeights(editor, i, alpha);
    if (node.inputs.size() > 2) {
      const float beta = node.Float("beta", 1);
      const Dims row{Channels(editor, node)};
      if (beta != 1 || editor.value(node.inputs[2]).dims != row) BroadcastBias(editor, i, beta);
    }
    editor.node(i).attributes["alpha"] = 1.0f;
    editor.node(i).attributes["beta"] = 1.0f;
  }
  editor.Finish();
}

}  // namespace lagoon
