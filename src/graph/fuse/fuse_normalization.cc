// Layer and root-mean-square norms that exporters write out as single ops.

#include <algorithm>
#include <optional>

#include "graph/fuse/formula.h"
#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

struct Mean {
  ValueId of = kNoValue;
  std::int64_t axis = 0;  // the mean is over all axes from this one on
};

std::optional<Mean> MeanOf(const GraphEditor& editor, ValueId value) {
  const Node* const node = ComputedBy(editor, value, "ReduceMean");
  if (node == nullptr || node->Int("keepdims", 1) != 1) return std::nullopt;
  const std::vector<std::int64_t> axes = node->Ints("axes", {});
  const auto rank = static_cast<std::int64_t>(editor.value(value).dims.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<std::int64_t>(axes.size() - i)) return std::nullopt;
  }
  if (axes.empty()) return std::nullopt;
  return Mean{node->inputs[0], axes[0]};
}

std::optional<ValueId> SquareOf(const GraphEditor& editor, ValueId value) {
  const Node* const power = ComputedBy(editor, value, "Pow");
  if (power != nullptr && IsNumber(editor, power->inputs[1], 2)) return power->inputs[0];
  const Node* const product = ComputedBy(editor, value, "Mul");
  if (product != nullptr && product->inputs[0] == product->inputs[1]) return product->inputs[0];
  return std::nullopt;
}

/// sqrt(mean of the squares of `of` + epsilon)
struct Deviation {
  ValueId of = kNoValue;
  std::int64_t axis = 0;
  double epsilon = 0;
};

std::optional<Deviation> DeviationOf(const GraphEditor& editor, ValueId value) {
  const Node* const root = ComputedBy(editor, value, "Sqrt");
  const Node* const sum = root == nullptr ? nullptr : ComputedBy(editor, root->inputs[0], "Add");
  if (sum == nullptr) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::optional<double> epsilon = NumberOf(editor, sum->inputs[side]);
    const std::optional<Mean> mean = MeanOf(editor, sum->inputs[1 - side]);
    if (!epsilon || !mean) continue;
    const std::optional<ValueId> of = SquareOf(editor, mean->of);
    if (of) return Deviation{*of, mean->axis, *epsilon};
  }
  return std::nullopt;
}

/// The value whose reciprocal `value` is.
std::optional<ValueId> ReciprocalOf(const GraphEditor& editor, ValueId value) {
  const Node* const reciprocal = ComputedBy(editor, value, "Reciprocal");
  if (reciprocal != nullptr) return reciprocal->inputs[0];
  const Node* const quotient = ComputedBy(editor, value, "Div");
  if (quotient != nullptr && IsNumber(editor, quotient->inputs[0], 1)) return quotient->inputs[1];
  return std::nullopt;
}

/// The deviation by which `node` divides: x / deviation, or x * (1 / deviation).
std::optional<Deviation> Divides(const GraphEditor& editor, const Node& node) {
  if (node.op == "Div") {
    const std::optional<Deviation> by = DeviationOf(editor, node.inputs[1]);
    return by && by->of == node.inputs[0] ? by : std::nullopt;
  }
  for (std::size_t side = 0; side < 2 && node.op == "Mul"; ++side) {
    const std::optional<ValueId> reciprocal = ReciprocalOf(editor, node.inputs[side]);
    if (!reciprocal) continue;
    const std::optional<Deviation> by = DeviationOf(editor, *reciprocal);
    if (by && by->of == node.inputs[1 - side]) return by;
  }
  return std::nullopt;
}

/// x, if `value` is x - its mean over the axes from `axis` on.
std::optional<ValueId> CenteredOf(const GraphEditor& editor, ValueId value, std::int64_t axis) {
  const Node* const difference = ComputedBy(editor, value, "Sub");
  if (difference == nullptr) return std::nullopt;
  const std::optional<Mean> mean = MeanOf(editor, difference->inputs[1]);
  if (!mean || mean->of != difference->inputs[0] || mean->axis != axis) return std::nullopt;
  return mean->of;
}

bool TryNormalization(GraphEditor& editor, std::size_t i) {
  Node& node = editor.node(i);
  const std::optional<Deviation> by = Divides(editor, node);
  if (!by || editor.value(by->of).type != DataType::kFloat32) return false;
  const std::optional<ValueId> x = CenteredOf(editor, by->of, by->axis);
  node.op = x ? "LayerNormalization" : "RMSNormalization";
  node.inputs = {x ? *x : by->of};
  node.attributes = {{"axis", by->axis}, {"epsilon", static_cast<float>(by->epsilon)}};
  return true;
}

/// True if `parameter` is a constant that broadcasts to the rows that `norm` normalises.
bool FitsRows(const GraphEditor& editor, const Node& norm, ValueId parameter) {
  const Value& value = editor.value(parameter);
  const Dims& dims = editor.value(norm.outputs[0]).dims;
  const std::size_t row_rank = dims.size() - static_cast<std::size_t>(norm.Int("axis", 0));
  if (!value.constant || value.dims.size() > row_rank) return false;
  for (std::size_t back = 1; back <= value.dims.size(); ++back) {
    const std::int64_t size = value.dims[value.dims.size() - back];
    if (size != 1 && size != dims[dims.size() - back]) return false;
  }
  return true;
}

/// A Mul by a constant becomes the scale of the norm before it, an Add of a constant its bias.
void TryParameter(GraphEditor& editor, std::size_t i) {
  const Node& node = editor.node(i);
  if ((node.op != "Mul" && node.op != "Add") || node.inputs.size() != 2) return;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::optional<std::size_t> producer = editor.SoleProducer(node.inputs[1 - side]);
    const ValueId parameter = node.inputs[side];
    if (!producer) continue;
    Node& norm = editor.node(*producer);
    const bool scales = node.op == "Mul";
    const bool layer = norm.op == "LayerNormalization";
    if (!(layer || (scales && norm.op == "RMSNormalization")) || norm.outputs.size() != 1) continue;
    if (norm.inputs.size() > (scales ? 1U : 2U) || !FitsRows(editor, norm, parameter)) continue;
    norm.inputs.resize(scales ? 1 : 2, kNoValue);
    norm.inputs.push_back(parameter);
    editor.Absorb(*producer, i);
    return;
  }
}

}  // namespace

void FuseNormalizations(Graph& graph) {
  {
    GraphEditor editor(graph);
    for (std::size_t i = 0; i < editor.size(); ++i) TryNormalization(editor, i);
    editor.Finish();
  }
  GraphEditor editor(graph);  // counts uses anew, because the nodes for the moments are gone
  for (std::size_t i = 0; i < editor.size(); ++i) TryParameter(editor, i);
  editor.Finish();
}

}  // namespace lagoon
