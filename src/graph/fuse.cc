#include "graph/fuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/budget.h"
#include "graph/guard.h"
#include "graph/text.h"

namespace lagoon {
namespace {

// Every node may come to need weights of its own; those that share some are charged for a copy.
Status ChargeSharedWeights(const Graph& graph, const ImportOptions& options) {
  ByteBudget budget(options.max_bytes);
  LAGOON_RETURN_IF_ERROR(ChargeValues(graph, budget));
  std::vector<bool> seen(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (!IsLinear(node)) continue;
    const auto weights = static_cast<std::size_t>(node.inputs[1]);
    if (seen[weights]) {
      const std::size_t bytes = graph.values[weights].constant->bytes->size();
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
  FuseNormalizations(graph);
  FuseGatedActivations(graph);
  FuseAttention(graph);
  NormalizeGemms(graph);
  FuseReshapedGemms(graph);
  FuseBias(graph);  // before the batch-norms: MatMul, Add, BatchNormalization is one layer
  LAGOON_RETURN_IF_ERROR(FuseBatchNorms(graph));
  LAGOON_RETURN_IF_ERROR(ExpandBatchNorms(graph));
  FuseJoins(graph);
  FuseBias(graph);
  DivideSplitLinears(graph);
  FuseResiduals(graph);
  FuseBias(graph);  // behind a residual
  FuseActivations(graph);
  FuseResiduals(graph);  // behind an activation
  return {};
}

Result<Graph> Load(const std::string& path, const ImportOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(Graph graph, ImportOnnx(path, options));
  if (const Status folded = FoldConstants(graph, options); !folded) {
    return Annotate(path, folded.error());
  }
  if (const Status fused = FuseOps(graph, options); !fused) return Annotate(path, fused.error());
  return graph;
}

}  // namespace

bool IsLinear(const Node& node) { return node.packed && node.op != "BatchNormalization"; }

std::int64_t Channels(const GraphEditor& editor, const Node& node) {
  const Dims& weights = editor.value(node.inputs[1]).dims;
  if (node.op == "MatMul") return weights[1];
  return node.op == "Conv" || node.Int("transB", 0) != 0 ? weights[0] : weights[1];
}

std::vector<double> BiasOf(const GraphEditor& editor, const Node& node) {
  const auto channels = static_cast<std::size_t>(Channels(editor, node));
  if (node.inputs.size() < 3) return std::vector<double>(channels, 0.0);
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
  node.inputs.resize(3, kNoValue);
  node.inputs[2] = id;
}

Status FuseOps(Graph& graph, const ImportOptions& options) {
  return WithoutExceptions([&] { return Fuse(graph, options); });
}

Result<Graph> LoadGraph(const std::string& path, const ImportOptions& options) {
  return WithoutExceptions([&] { return Load(path, options); });
}

}  // namespace lagoon
