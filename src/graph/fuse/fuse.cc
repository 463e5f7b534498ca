#include "graph/fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "base/text.h"
#include "graph/budget.h"

namespace lagoon {
namespace {

// Fusion may give every node weights of its own, so nodes that share weights are charged for a
// copy.
Status ChargeSharedWeights(const Graph& graph, const ImportOptions& options) {
  ByteBudget budget(options.max_bytes);
  LAGOON_RETURN_IF_ERROR(ChargeValues(graph, budget));
  std::vector<bool> seen(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (!IsLinear(node)) continue;
    const auto weights = static_cast<std::size_t>(node.inputs[1]);
    if (seen[weights]) {
      const std::size_t bytes = graph.values[weights].constant->bytes.size();
      LAGOON_RETURN_IF_ERROR(
          budget.Charge(bytes, fmt::format("node {}: a copy of the weights {}, which nodes share,",
                                           Quoted(node.name), Quoted(graph.values[weights].name))));
    }
    seen[weights] = true;
  }
  return {};
}

Status Fuse(Graph& graph, const ImportOptions& options) {
  LAGOON_RETURN_IF_ERROR(ChargeSharedWeights(graph, options));
  ShareEqualNodes(graph);
  FuseExpandedIndices(graph);
  FuseScatteredSlices(graph);
  DivideQuantizedOps(graph);
  FuseQuantization(graph);
  FuseIntegerProducts(graph);
  FuseNormalizations(graph);
  FuseGatedActivations(graph);
  FuseAttention(graph);
  NormalizeGemms(graph);
  FuseReshapedGemms(graph);
  FuseBias(graph);  // before the batch-norms: MatMul, Add, BatchNormalization is one layer
  FuseScales(graph);
  FuseBias(graph);  // behind a scale
  LAGOON_RETURN_IF_ERROR(FuseBatchNorms(graph));
  LAGOON_RETURN_IF_ERROR(ExpandBatchNorms(graph));
  FuseJoins(graph);
  FuseBias(graph);
  DivideSplitLinears(graph);
  FuseResiduals(graph);
  FuseBias(graph);  // for biases after a residual
  FuseActivations(graph);
  FuseResiduals(graph);  // for residuals after an activation
  return {};
}

}  // namespace

bool IsLinear(const Node& node) { return node.packed && node.op != "BatchNormalization"; }
bool IsConvolution(const Node& node) { return node.op == "Conv" || node.op == "ConvTranspose"; }

std::int64_t Channels(const GraphEditor& editor, const Node& node) {
  const Dims& weights = editor.value(node.inputs[1]).dims;
  if (node.op == "MatMul") return weights[1];
  return node.op == "Conv" || node.Int("transB", 0) != 0 ? weights[0] : weights[1];
}

std::vector<double> BiasOf(const GraphEditor& editor, const Node& node) {
  const auto channels = static_cast<std::size_t>(Channels(editor, node));
  if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) {
    return std::vector<double>(channels, 0.0);
  }
  const std::span<const float> bias = editor.value(node.inputs[2]).constant->floats();
  return {bias.begin(), bias.end()};
}

void SetBias(GraphEditor& editor, std::size_t i, const std::vector<double>& bias) {
  std::vector<float> rounded(bias.size());
  std::transform(bias.begin(), bias.end(), rounded.begin(),
                 [](double v) { return static_cast<float>(v); });
  Node& node = editor.node(i);
  const ValueId id =
      editor.AddConstant(node, "_bias", {static_cast<std::int64_t>(bias.size())}, rounded);
  node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3), kNoValue);
  node.inputs[2] = id;
}

Status FuseOps(Graph& graph, const ImportOptions& options) {
  return WithoutExceptions([&] { return Fuse(graph, options); });
}

}  // namespace lagoon
