// Attention as exporters write it out: softmax(scale * q * transposed(k) + mask) * v.

#include <algorithm>
#include <optional>

#include "graph/fuse/formula.h"
#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

constexpr std::size_t kRank = 4;  // batch, heads, rows, columns
using Order = std::vector<std::int64_t>;

/// A tensor of rank 4 with its axes read in another order.
struct Permuted {
  ValueId of = kNoValue;
  Order order = {0, 1, 2, 3};
};

/// Looks through the Transposes that compute `value`.
Permuted PermutedOf(const GraphEditor& editor, ValueId value) {
  Permuted result{value};
  while (const Node* const node = ComputedBy(editor, result.of, "Transpose")) {
    const Order perm = node->Ints("perm", {});
    if (perm.size() != kRank) break;
    for (std::int64_t& axis : result.order) axis = perm[static_cast<std::size_t>(axis)];
    result.of = node->inputs[0];
  }
  return result;
}

bool HasHeads(const GraphEditor& editor, ValueId value) {
  return editor.value(value).type == DataType::kFloat32 && editor.value(value).dims.size() == kRank;
}

/// True if a value of `dims` broadcasts to the scores without making them larger.
bool BroadcastsTo(const Dims& dims, const Dims& scores) {
  if (dims.size() > scores.size()) return false;
  for (std::size_t back = 1; back <= dims.size(); ++back) {
    const std::int64_t size = dims[dims.size() - back];
    if (size != 1 && size != scores[scores.size() - back]) return false;
  }
  return true;
}

/// What is known about the scores while the formula is read backwards.
struct Scores {
  ValueId value = kNoValue;
  ValueId mask = kNoValue;  // added to the scores
  ValueId keep = kNoValue;  // bool; the score is `fill` where an element differs from `kept`
  bool kept = true;
  double fill = 0;
  double scale = 1;
};

bool IsProduct(const GraphEditor& editor, ValueId value) {
  return ComputedBy(editor, ScaledOf(editor, value).of, "MatMul") != nullptr;
}

/// True if a mask may be added to `value`: it is a product, or a choice between a product and a
/// number.
bool IsScores(const GraphEditor& editor, ValueId value) {
  const Node* const where = ComputedBy(editor, value, "Where");
  if (where == nullptr) return IsProduct(editor, value);
  return IsProduct(editor, where->inputs[1]) || IsProduct(editor, where->inputs[2]);
}

/// Removes the addition of a mask.
void TakeMask(const GraphEditor& editor, Scores& scores) {
  const Node* const sum = ComputedBy(editor, scores.value, "Add");
  if (sum == nullptr) return;
  const Dims& dims = editor.value(scores.value).dims;
  for (std::size_t side = 0; side < 2; ++side) {
    const ValueId rest = sum->inputs[1 - side], mask = sum->inputs[side];
    if (!IsScores(editor, rest) || editor.value(rest).dims != dims) continue;
    if (!BroadcastsTo(editor.value(mask).dims, dims)) continue;
    scores.mask = mask;
    scores.value = rest;
    return;
  }
}

/// Removes a choice between the scores and a number.
void TakeChoice(const GraphEditor& editor, Scores& scores) {
  const Node* const where = ComputedBy(editor, scores.value, "Where");
  if (where == nullptr) return;
  const Dims& dims = editor.value(scores.value).dims;
  if (!BroadcastsTo(editor.value(where->inputs[0]).dims, dims)) return;
  for (const std::size_t side : {1U, 2U}) {
    const std::optional<double> fill = NumberOf(editor, where->inputs[3 - side]);
    if (!fill || editor.value(where->inputs[side]).dims != dims) continue;
    scores.keep = where->inputs[0];
    scores.kept = side == 1;
    scores.fill = *fill;
    scores.value = where->inputs[side];
    return;
  }
}

void TakeScale(const GraphEditor& editor, ValueId& value, double& scale) {
  const Scaled scaled = ScaledOf(editor, value);
  value = scaled.of;
  scale *= scaled.factor;
}

/// The product of two computed matrices that gives the scores, or null.
const Node* ProductOf(const GraphEditor& editor, Scores& scores) {
  TakeMask(editor, scores);
  TakeChoice(editor, scores);
  TakeScale(editor, scores.value, scores.scale);
  const Node* const product = ComputedBy(editor, scores.value, "MatMul");
  return product != nullptr && !product->packed ? product : nullptr;
}

/// True if batch and heads are those of the product, without broadcasting.
bool SameHeads(const GraphEditor& editor, ValueId value, const Dims& dims) {
  const Dims& own = editor.value(value).dims;
  return own[0] == dims[0] && own[1] == dims[1];
}

std::optional<Scores> ReadScores(const GraphEditor& editor, ValueId probabilities) {
  const Node* const softmax = ComputedBy(editor, probabilities, "Softmax");
  if (softmax == nullptr || !HasHeads(editor, probabilities) ||
      softmax->Int("axis", -1) != static_cast<std::int64_t>(kRank) - 1 ||
      editor.value(probabilities).dims.back() > kMaxFusedKeys) {
    return std::nullopt;
  }
  Scores scores;
  scores.value = softmax->inputs[0];
  return scores;
}

void TryAttention(GraphEditor& editor, std::size_t i) {
  Node& node = editor.node(i);
  // If other nodes read the probabilities, these must be computed anyway.
  if (node.op != "MatMul" || node.packed || !editor.SoleProducer(node.inputs[0])) return;
  std::optional<Scores> scores = ReadScores(editor, node.inputs[0]);
  if (!scores) return;
  const Node* const product = ProductOf(editor, *scores);
  if (product == nullptr) return;
  ValueId q = product->inputs[0], k = product->inputs[1];
  for (ValueId* const side : {&q, &k}) TakeScale(editor, *side, scores->scale);
  const Dims& dims = editor.value(node.outputs[0]).dims;
  for (const ValueId side : {q, k, node.inputs[1]}) {
    if (!HasHeads(editor, side) || !SameHeads(editor, side, dims)) return;
  }
  const Permuted from_q = PermutedOf(editor, q), from_k = PermutedOf(editor, k);
  const Permuted from_v = PermutedOf(editor, node.inputs[1]);
  if (from_v.order.back() != static_cast<std::int64_t>(kRank) - 1) return;
  Order k_order = from_k.order;
  std::swap(k_order[2], k_order[3]);  // k is the transposed right operand
  node.op = "Attention";
  node.inputs = {from_q.of, from_k.of, from_v.of, scores->mask, scores->keep};
  node.attributes = {{"q_order", from_q.order},
                     {"k_order", k_order},
                     {"v_order", from_v.order},
                     {"y_order", Order{0, 1, 2, 3}},
                     {"scale", static_cast<float>(scores->scale)},
                     {"kept", std::int64_t{scores->kept ? 1 : 0}},
                     {"fill", static_cast<float>(scores->fill)}};
}

/// Merges a following Transpose that keeps the columns together into the order in which y is
/// written.
void TryOutput(GraphEditor& editor, std::size_t i) {
  const Node& transpose = editor.node(i);
  if (transpose.op != "Transpose") return;
  const std::optional<std::size_t> producer = editor.SoleProducer(transpose.inputs[0]);
  if (!producer || editor.node(*producer).op != "Attention") return;
  const Order perm = transpose.Ints("perm", {});
  if (perm.back() != static_cast<std::int64_t>(kRank) - 1) return;
  Order order(kRank);
  for (std::size_t axis = 0; axis < kRank; ++axis) {
    order[static_cast<std::size_t>(perm[axis])] = static_cast<std::int64_t>(axis);
  }
  editor.node(*producer).attributes["y_order"] = order;
  editor.Absorb(*producer, i);
}

}  // namespace

void FuseAttention(Graph& graph) {
  GraphEditor editor(graph);
  for (std::size_t i = 0; i < editor.size(); ++i) {
    TryAttention(editor, i);
    TryOutput(editor, i);
  }
  editor.Finish();
}

}  // namespace lagoon
