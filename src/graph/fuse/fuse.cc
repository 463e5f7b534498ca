#include "graph/fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "graph/budget.h"
#include "graph/guard.h"
#include "graph/import/import_batches.h"

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
      const std::size_t bytes = graph.values[weights].constant->bytes->size();
      LAGOON_RETURN_IF_ERROR(
          budget.Charge(bytes, fmt::format("node {}: a copy of the weights {}, which nodes share,",
                                           Quoted(node.name), Quoted(graph.values[weights].name))));
    }
    seen[weights] = true;
  }
  return {};
}

Status Fuse(Graph& graph, const ImportOptions& options, ScaledWeights& scaled) {
  LAGOON_RETURN_IF_ERROR(ChargeSharedWeights(graph, options));
  FuseNormalizations(graph);
  FuseGatedActivations(graph);
  FuseAttention(graph);
  NormalizeGemms(graph);
  FuseReshapedGemms(graph);
  FuseBias(graph);  // before the batch-norms: MatMul, Add, BatchNormalization is one layer
  LAGOON_RETURN_IF_ERROR(FuseBatchNorms(graph, scaled));
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

// Lets constants that passes computed equally for another batch size share their bytes.
void ShareConstants(const Graph& first, Graph& graph) {
  std::unordered_map<std::string_view, const Constant*> known;
  for (const Value& value : first.values) {
    if (value.constant) known.emplace(value.name, &*value.constant);
  }
  for (Value& value : graph.values) {
    if (!value.constant) continue;
    const auto found = known.find(value.name);
    if (found == known.end() || value.constant->bytes == found->second->bytes) continue;
    if (*value.constant->bytes == *found->second->bytes) {
      value.constant->bytes = found->second->bytes;
    }
  }
}

Result<std::vector<Graph>> Load(const std::string& path, std::span<const std::int64_t> batches,
                                const ImportOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(std::vector<Graph> graphs, ImportBatches(path, batches, options));
  ScaledWeights scaled;
  for (Graph& graph : graphs) {
    LAGOON_RETURN_IF_ERROR(FoldConstants(graph, options));
    LAGOON_RETURN_IF_ERROR(Fuse(graph, options, scaled));
    ShareConstants(graphs.front(), graph);
  }
  return graphs;
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
  ScaledWeights scaled;
  return WithoutExceptions([&] { return Fuse(graph, options, scaled); });
}

Result<std::vector<Graph>> LoadGraphs(const std::string& path,
                                      std::span<const std::int64_t> batches,
                                      const ImportOptions& options) {
  auto graphs = WithoutExceptions([&] { return Load(path, batches, options); });
  if (!graphs) return Annotate(path, std::move(graphs).error());
  return graphs;
}

Result<Graph> LoadGraph(const std::string& path, const ImportOptions& options) {
  constexpr std::int64_t kOne[] = {1};
  LAGOON_ASSIGN_OR_RETURN(std::vector<Graph> graphs, LoadGraphs(path, kOne, options));
  return std::move(graphs.front());
}

}  // namespace lagoon
