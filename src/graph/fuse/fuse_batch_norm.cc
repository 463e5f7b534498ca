#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/fuse/fuse.h"
#include "graph/ops/op_context.h"

namespace lagoon {
namespace {

// y = scale * x + shift per channel.
struct Affine {
  std::vector<double> scale, shift;
};

Result<Affine> ReadBatchNorm(Graph& graph, Node& node) {
  const auto input = [&](std::size_t i) { return graph.value(node.inputs[i]).constant->floats(); };
  const std::span<const float> gamma = input(1), beta = input(2), mean = input(3), var = input(4);
  const double epsilon = node.Float("epsilon", 1e-5f);
  Affine affine;
  for (std::size_t c = 0; c < gamma.size(); ++c) {
    const double variance = var[c] + epsilon;
    if (!(variance > 0)) {
      return OpContext(graph, node)
          .Invalid(fmt::format("variance plus epsilon of channel {} is {}", c, variance));
    }
    affine.scale.push_back(gamma[c] / std::sqrt(variance));
    affine.shift.push_back(beta[c] - mean[c] * affine.scale.back());
  }
  return affine;
}

// Weights with each output channel scaled. Conv: [M,C,H,W]; ConvTranspose: [C,M,H,W]. Gemm: [N,K]
// or, if not transposed, [K,N] as in MatMul.
ValueId ScaleChannels(GraphEditor& editor, const Node& node, const std::vector<double>& scale) {
  const Constant& weights = *editor.value(node.inputs[1]).constant;
  const bool rows = node.op == "Conv" || node.Int("transB", 0) != 0;
  // The number of neighbouring weights of one output channel.
  std::int64_t inner = 1;
  for (std::size_t axis = rows ? 1 : 2; axis < weights.dims.size(); ++axis) {
    inner *= weights.dims[axis];
  }
  const auto multiply = [scale, inner](std::span<const Constant> sources) {
    const std::span<const float> from = sources[0].floats();
    std::vector<float> scaled;
    scaled.reserve(from.size());
    while (scaled.size() < from.size()) {
      for (const double factor : scale) {
        for (const float weight : from.subspan(scaled.size(), static_cast<std::size_t>(inner))) {
          scaled.push_back(static_cast<float>(weight * factor));
        }
      }
    }
    return BytesOf(scaled);
  };
  const std::string recipe =
      fmt::format("scale {} {}", inner, ToString(IdentityOf(std::as_bytes(std::span(scale)))));
  return editor.AddConstant(
      node, "_scaled",
      DerivedConstant(DataType::kFloat32, weights.dims, recipe, {weights}, multiply));
}

void FoldInto(GraphEditor& editor, std::size_t i, const Affine& affine) {
  std::vector<double> bias = BiasOf(editor, editor.node(i));
  for (std::size_t c = 0; c < bias.size(); ++c) {
    bias[c] = bias[c] * affine.scale[c] + affine.shift[c];
  }
  const ValueId weights = ScaleChannels(editor, editor.node(i), affine.scale);
  editor.node(i).inputs[1] = weights;
  SetBias(editor, i, bias);
}

// The scale must apply to all that the node sums, and the channels of the batch-norm, axis 1, must
// be those of the node.
bool TakesScale(const GraphEditor& editor, const Node& node) {
  if (!IsLinear(node) || node.fused.residual != kNoValue) return false;
  if (node.op == "IntegerLinear") return false;  // its weights are integers
  if (node.fused.activation != ActivationKind::kNone) return false;
  return IsConvolution(node) || editor.value(node.outputs[0]).dims.size() == 2;
}

/// Multiplies the node behind `mul` by input `side` of this Mul, if that is a constant.
bool TryScale(GraphEditor& editor, std::size_t mul, std::size_t side) {
  const ValueId other = editor.node(mul).inputs[1 - side];
  const Value& constant = editor.value(editor.node(mul).inputs[side]);
  const std::optional<std::size_t> producer = editor.SoleProducer(other);
  if (!constant.constant || constant.type != DataType::kFloat32 || !producer) return false;
  const Node& linear = editor.node(*producer);
  if (!IsLinear(linear) || linear.op == "IntegerLinear") return false;
  if (linear.fused.residual != kNoValue || linear.fused.activation != ActivationKind::kNone) {
    return false;
  }
  const Dims& dims = editor.value(other).dims;
  if (editor.value(linear.inputs[1]).quantized != nullptr ||
      !IsPerChannel(constant.dims, dims, ChannelAxis(linear, dims.size()))) {
    return false;
  }
  const std::span<const float> by = constant.constant->floats();
  if (!std::all_of(by.begin(), by.end(), [](float x) { return std::isfinite(x); })) return false;
  Affine affine;
  affine.shift.resize(static_cast<std::size_t>(Channels(editor, linear)), 0);
  for (std::size_t c = 0; c < affine.shift.size(); ++c) {
    affine.scale.push_back(by[by.size() == 1 ? 0 : c]);
  }
  FoldInto(editor, *producer, affine);
  editor.Absorb(*producer, mul);
  return true;
}

ValueId AddConstant(Graph& graph, const Node& node, const char* suffix, Dims dims,
                    const std::vector<double>& values) {
  return AddFloatConstant(graph, node.name + suffix, std::move(dims),
                          std::vector<float>(values.begin(), values.end()));
}

ValueId AddScaledValue(Graph& graph, const Node& node) {
  Value value = graph.value(node.outputs[0]);
  value.name = node.name + "_scaled";
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

void AppendChannelAffine(Graph& graph, const Node& node, const Affine& affine,
                         std::vector<Node>& nodes) {
  const Dims dims{static_cast<std::int64_t>(affine.scale.size())};
  Node replaced{node.name, "ChannelAffine", {}, node.outputs, {}, {}};
  replaced.inputs.push_back(AddConstant(graph, node, "_scale", dims, affine.scale));
  replaced.inputs.push_back(AddConstant(graph, node, "_shift", dims, affine.shift));
  replaced.inputs.push_back(node.inputs[0]);
  nodes.push_back(std::move(replaced));
}

void AppendMulAndAdd(Graph& graph, const Node& node, const Affine& affine,
                     std::vector<Node>& nodes) {
  Dims dims(graph.value(node.inputs[0]).dims.size(), 1);
  dims[1] = static_cast<std::int64_t>(affine.scale.size());
  const ValueId scaled = AddScaledValue(graph, node);
  Node mul{node.name + "_mul", "Mul", {node.inputs[0]}, {scaled}, {}, {}};
  mul.inputs.push_back(AddConstant(graph, node, "_scale", dims, affine.scale));
  Node add{node.name + "_add", "Add", {scaled}, node.outputs, {}, {}};
  add.inputs.push_back(AddConstant(graph, node, "_shift", dims, affine.shift));
  nodes.push_back(std::move(mul));
  nodes.push_back(std::move(add));
}

}  // namespace

Status FuseBatchNorms(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    Node& node = editor.node(i);
    if (node.op != "BatchNormalization" || !node.packed) continue;
    const std::optional<std::size_t> producer = editor.SoleProducer(node.inputs[0]);
    if (!producer || !TakesScale(editor, editor.node(*producer))) continue;
    LAGOON_ASSIGN_OR_RETURN(const Affine affine, ReadBatchNorm(graph, node));
    FoldInto(editor, *producer, affine);
    editor.Absorb(*producer, i);
  }
  editor.Finish();
  return {};
}

void FuseScales(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    if (editor.node(i).op != "Mul" || editor.node(i).inputs.size() != 2) continue;
    if (!TryScale(editor, i, 1)) TryScale(editor, i, 0);
  }
  editor.Finish();
}

Status ExpandBatchNorms(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (node.op != "BatchNormalization" || !node.packed) {
      nodes.push_back(std::move(node));
      continue;
    }
    LAGOON_ASSIGN_OR_RETURN(const Affine affine, ReadBatchNorm(graph, node));
    const std::size_t rank = graph.value(node.inputs[0]).dims.size();
    if (rank == 2 || rank == 4) {
      AppendChannelAffine(graph, node, affine, nodes);
    } else {
      AppendMulAndAdd(graph, node, affine, nodes);
    }
  }
  graph.nodes = std::move(nodes);
  Compact(graph);
  return {};
}

void FuseJoins(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    const Node& affine = editor.node(i);
    if (affine.op != "ChannelAffine") continue;
    const std::optional<std::size_t> join = editor.SoleProducer(affine.inputs[2]);
    if (!join || editor.node(*join).op != "Concat") continue;
    Node& concat = editor.node(*join);
    if (concat.Int("axis", 0) != 1 || concat.inputs.size() > kMaxJoinedParts) continue;
    Node joined{affine.name, affine.op, {affine.inputs[0], affine.inputs[1]}, {}, {}, {}};
    joined.inputs.insert(joined.inputs.end(), concat.inputs.begin(), concat.inputs.end());
    joined.outputs = concat.outputs;
    concat = std::move(joined);
    editor.AbsorbAtReader(*join, i);
  }
  editor.Finish();
}

}  // namespace lagoon
