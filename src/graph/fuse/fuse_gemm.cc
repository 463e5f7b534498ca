#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

void ScaleWeights(GraphEditor& editor, std::size_t i, float alpha) {
  Node& node = editor.node(i);
  const Constant& weights = *editor.value(node.inputs[1]).constant;
  const auto multiply = [alpha](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> scaled(from.begin(), from.end());
    for (float& weight : scaled) weight *= alpha;
    return BytesOf(scaled);
  };
  node.inputs[1] =
      editor.AddConstant(node, "_scaled",
                         DerivedConstant(DataType::kFloat32, weights.dims,
                                         fmt::format("times {:a}", alpha), {weights}, multiply));
}

// C is [N], [1,N], [1], [1,1] or a scalar; the shape rule refuses all other shapes.
void BroadcastBias(GraphEditor& editor, std::size_t i, float beta) {
  const Node& node = editor.node(i);
  const std::span<const float> from = editor.value(node.inputs[2]).constant->floats();
  std::vector<double> bias(static_cast<std::size_t>(Channels(editor, node)));
  for (std::size_t n = 0; n < bias.size(); ++n) {
    bias[n] = static_cast<double>(beta) * from[from.size() == 1 ? 0 : n];
  }
  SetBias(editor, i, bias);
}

// Whether `dims` is [..., last] with the leading dims of `like`.
bool HasLeadingDims(const Dims& dims, const Dims& like) {
  return dims.size() == like.size() && !dims.empty() &&
         std::equal(dims.begin(), dims.end() - 1, like.begin());
}

// The tensor whose rows, made by a Reshape, `node` multiplies; nothing if `node` is not of this
// form.
std::optional<ValueId> UnfoldedInput(const GraphEditor& editor, const Node& node) {
  if (node.op != "Gemm" || !node.packed || node.Int("transB", 0) != 0) return std::nullopt;
  const std::optional<std::size_t> before = editor.Producer(node.inputs[0]);
  if (!before || editor.node(*before).op != "Reshape") return std::nullopt;
  const ValueId x = editor.node(*before).inputs[0];
  const Dims& dims = editor.value(x).dims;
  if (dims.size() < 2 || dims.back() != editor.value(node.inputs[0]).dims.back()) {
    return std::nullopt;
  }
  return x;
}

}  // namespace

void FuseReshapedGemms(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    if (editor.node(i).op != "Reshape") continue;
    const std::optional<std::size_t> gemm = editor.SoleProducer(editor.node(i).inputs[0]);
    if (!gemm) continue;
    const std::optional<ValueId> x = UnfoldedInput(editor, editor.node(*gemm));
    const Dims& dims = editor.value(editor.node(i).outputs[0]).dims;
    if (!x || !HasLeadingDims(dims, editor.value(*x).dims) ||
        dims.back() != Channels(editor, editor.node(*gemm))) {
      continue;
    }
    Node& node = editor.node(*gemm);
    node.op = "MatMul";
    node.inputs[0] = *x;
    node.attributes.clear();
    editor.Absorb(*gemm, i);
  }
  editor.Finish();
}

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
