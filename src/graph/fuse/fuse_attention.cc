// Attention as exporters write it out: softmax(scale * q * transposed(k) + mask) * v.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/fuse/attention_scores.h"
#include "graph/fuse/formula.h"
#include "graph/fuse/fuse.h"

namespace lagoon {
namespace {

constexpr std::size_t kRank = 4;  // batch, heads, rows, columns
/// Heads that an exporter has merged with the batch may be no deeper: GPUs have no deeper
/// attention, but the two products.
constexpr std::int64_t kMaxMergedDepth = 128;
using Order = std::vector<std::int64_t>;

/// A tensor read as `dims` with its axes in another order.
struct Permuted {
  ValueId of = kNoValue;
  Dims dims;
  Order order = {0, 1, 2, 3};
};

/// Looks through the Transposes that compute `value`, and a Reshape that merges batch and heads.
/// Nothing if the value has no batch and heads that `split` describes.
std::optional<Permuted> PermutedOf(const GraphEditor& editor, ValueId value,
                                   const HeadSplit& split) {
  const std::optional<Dims> heads = HeadDims(editor, value, split);
  if (!heads || (*heads)[0] != split.batch || (*heads)[1] != split.heads) return std::nullopt;
  Permuted result{value, *heads};
  bool merged = editor.value(value).dims.size() < kRank;
  for (;;) {
    if (const auto behind = BehindHeadReshape(editor, result.of); merged && behind) {
      const Dims& dims = editor.value(*behind).dims;
      if (dims.size() == kRank && dims != result.dims) return result;
      result.of = *behind;
      merged = dims.size() < kRank;
      continue;
    }
    const Node* const node = ComputedBy(editor, result.of, "Transpose");
    if (node == nullptr) return result;
    Order perm = node->Ints("perm", {});
    if (merged && perm.size() + 1 == kRank && perm[0] == 0) {
      for (std::int64_t& axis : perm) ++axis;
      perm.insert(perm.begin(), 0);
    }
    if (perm.size() != kRank) return result;
    const std::optional<Dims> dims = HeadDims(editor, node->inputs[0], split);
    if (!dims) return result;
    for (std::int64_t& axis : result.order) axis = perm[static_cast<std::size_t>(axis)];
    result.of = node->inputs[0];
    result.dims = *dims;
  }
}

/// How many neighbouring heads are repetitions of one, which an Expand makes along an axis of its
/// own behind the heads, as decoders do with keys and values. 1: none.
std::int64_t RepeatsOf(const GraphEditor& editor, const Permuted& x) {
  const bool heads_first = x.order[0] == 0 && x.order[1] == 1;
  const Node* const reshape = ComputedBy(editor, x.of, "Reshape");
  if (reshape == nullptr || !heads_first || editor.value(x.of).dims != x.dims) return 1;
  const Node* const expand = ComputedBy(editor, reshape->inputs[0], "Expand");
  if (expand == nullptr) return 1;
  const Dims& from = editor.value(expand->inputs[0]).dims;
  const Dims& to = editor.value(expand->outputs[0]).dims;
  if (from.size() != kRank + 1 || from[2] != 1 || from[1] * to[2] != x.dims[1]) return 1;
  Dims repeated = from;
  repeated[2] = to[2];
  const bool splits_heads = std::equal(from.begin() + 3, from.end(), x.dims.begin() + 2);
  return repeated == to && splits_heads && from[0] == x.dims[0] ? to[2] : 1;
}

/// The heads before they were repeated so many times.
void TakeRepeated(const GraphEditor& editor, std::int64_t times, Permuted& x) {
  x.of = ComputedBy(editor, ComputedBy(editor, x.of, "Reshape")->inputs[0], "Expand")->inputs[0];
  x.dims[1] /= times;
}

void TakeScale(const GraphEditor& editor, ValueId& value, double& scale) {
  const Scaled scaled = ScaledOf(editor, value);
  value = scaled.of;
  scale *= scaled.factor;
}

/// What computes the probabilities, which only this attention may read: otherwise they must be
/// computed anyway.
const Node* SoftmaxOf(const GraphEditor& editor, ValueId probabilities) {
  std::optional<std::size_t> producer = editor.SoleProducer(probabilities);
  while (const auto behind = BehindHeadReshape(editor, probabilities)) {
    if (!producer) return nullptr;
    probabilities = *behind;
    producer = editor.SoleProducer(probabilities);
  }
  const Node* const softmax = ComputedBy(editor, probabilities, "Softmax");
  if (softmax == nullptr || !producer) return nullptr;
  const Dims& dims = editor.value(probabilities).dims;
  const auto last = static_cast<std::int64_t>(dims.size()) - 1;
  const std::int64_t axis = softmax->Int("axis", -1);
  if (last < 2 || last > 3 || (axis != -1 && axis != last)) return nullptr;
  return dims.back() > kMaxFusedKeys ? nullptr : softmax;
}

struct AttentionParts {
  AttentionScores scores;
  HeadSplit split;
  Permuted q, k, v;
  std::int64_t sharing = 1;  // neighbouring heads that read the same keys and values
};

/// Batch and heads of q if no tensor of the scores says them: q may be a merged tensor.
HeadSplit SplitOf(const GraphEditor& editor, ValueId q) {
  for (ValueId value = q;;) {
    const Dims& dims = editor.value(value).dims;
    if (dims.size() == kRank) return {dims[0], dims[1]};
    const auto behind = BehindHeadReshape(editor, value);
    if (!behind) return {dims[0], 1};
    value = *behind;
  }
}

std::optional<AttentionParts> ReadAttention(const GraphEditor& editor, const Node& node) {
  const Node* const softmax = SoftmaxOf(editor, node.inputs[0]);
  if (softmax == nullptr) return std::nullopt;
  const std::optional<AttentionScores> scores = ReadAttentionScores(editor, softmax->inputs[0]);
  if (!scores) return std::nullopt;
  AttentionParts parts{*scores, {}, {}, {}, {}, 1};
  ValueId q = scores->product->inputs[0], k = scores->product->inputs[1];
  for (ValueId* const side : {&q, &k}) TakeScale(editor, *side, parts.scores.scale);
  const bool merged = editor.value(q).dims.size() < kRank;
  if (merged && editor.value(q).dims.back() > kMaxMergedDepth) return std::nullopt;
  if (editor.value(q).dims.size() + 1 < kRank) return std::nullopt;
  parts.split = scores->split.value_or(SplitOf(editor, q));
  const auto from_q = PermutedOf(editor, q, parts.split);
  const auto from_k = PermutedOf(editor, k, parts.split);
  const auto from_v = PermutedOf(editor, node.inputs[1], parts.split);
  if (!from_q || !from_k || !from_v) return std::nullopt;
  if (from_v->order.back() != static_cast<std::int64_t>(kRank) - 1) return std::nullopt;
  if (!HeadDims(editor, node.outputs[0], parts.split)) return std::nullopt;
  parts.q = *from_q;
  parts.k = *from_k;
  std::swap(parts.k.order[2], parts.k.order[3]);  // k is the transposed right operand
  parts.v = *from_v;
  const std::int64_t times = RepeatsOf(editor, parts.k);
  if (times > 1 && RepeatsOf(editor, parts.v) == times) {
    parts.sharing = times;
    for (Permuted* const x : {&parts.k, &parts.v}) TakeRepeated(editor, times, *x);
  }
  return parts;
}

/// The sums of two masks that attentions add, by the two.
using MaskSums = std::map<std::pair<ValueId, ValueId>, ValueId>;

/// The sum of both masks: of an attention before, or what the Add of one of them becomes.
ValueId MaskOf(Graph& graph, GraphEditor& editor, const AttentionScores& scores, MaskSums& sums) {
  if (!scores.mask_sum) return scores.mask;
  const auto both = std::minmax(scores.mask, scores.second_mask);
  Node& add = editor.node(*scores.mask_sum);
  const auto [known, is_new] = sums.emplace(both, add.outputs[0]);
  if (is_new) {
    add.inputs = {scores.mask, scores.second_mask};
    graph.value(add.outputs[0]).dims = scores.sum_dims;
  }
  return known->second;
}

void TryAttention(Graph& graph, GraphEditor& editor, std::size_t i, MaskSums& sums) {
  Node& node = editor.node(i);
  if (node.op != "MatMul" || node.packed) return;
  const std::optional<AttentionParts> parts = ReadAttention(editor, node);
  if (!parts) return;
  const auto& [scores, split, q, k, v, sharing] = *parts;
  const ValueId mask = MaskOf(graph, editor, scores, sums);
  node.op = "Attention";
  node.inputs = {q.of, k.of, v.of, mask, scores.keep};
  node.attributes = {{"q_dims", q.dims},
                     {"k_dims", k.dims},
                     {"v_dims", v.dims},
                     {"y_dims", *HeadDims(editor, node.outputs[0], split)},
                     {"mask_dims", scores.mask_dims},
                     {"keep_dims", scores.keep_dims},
                     {"q_order", q.order},
                     {"k_order", k.order},
                     {"v_order", v.order},
                     {"y_order", Order{0, 1, 2, 3}},
                     {"sharing", sharing},
                     {"scale", static_cast<float>(scores.scale)},
                     {"kept", std::int64_t{scores.kept ? 1 : 0}},
                     {"fill", static_cast<float>(scores.fill)}};
  if (scores.floor) node.attributes["floor"] = static_cast<float>(*scores.floor);
}

/// The attention whose output only node `i` reads, in the order of its own axes.
std::optional<std::size_t> AttentionBefore(const GraphEditor& editor, std::size_t i) {
  const std::optional<std::size_t> producer = editor.SoleProducer(editor.node(i).inputs[0]);
  return producer && editor.node(*producer).op == "Attention" ? producer : std::nullopt;
}

/// Merges a following Transpose that keeps the columns together into the order in which y is
/// written. A Reshape that splits batch and heads before it changes nothing in memory.
void TryOutput(GraphEditor& editor, std::size_t i) {
  const Node& reader = editor.node(i);
  if (reader.op != "Transpose" && reader.op != "Reshape") return;
  const std::optional<std::size_t> producer = AttentionBefore(editor, i);
  if (!producer) return;
  Node& attention = editor.node(*producer);
  const Dims& dims = editor.value(reader.outputs[0]).dims;
  if (reader.op == "Reshape") {
    if (dims == attention.Ints("y_dims", {})) editor.Absorb(*producer, i);
    return;
  }
  const Order perm = reader.Ints("perm", {});
  if (perm.size() != kRank || perm.back() != static_cast<std::int64_t>(kRank) - 1) return;
  Order order(kRank);
  for (std::size_t axis = 0; axis < kRank; ++axis) {
    order[static_cast<std::size_t>(perm[axis])] = static_cast<std::int64_t>(axis);
  }
  attention.attributes["y_order"] = order;
  attention.attributes["y_dims"] = dims;
  editor.Absorb(*producer, i);
}

}  // namespace

void FuseAttention(Graph& graph) {
  GraphEditor editor(graph);
  MaskSums sums;
  for (std::size_t i = 0; i < editor.size(); ++i) {
    TryAttention(graph, editor, i, sums);
    TryOutput(editor, i);
  }
  editor.Finish();
}

}  // namespace lagoon
