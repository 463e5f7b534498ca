// Attention, as ONNX Runtime's optimiser writes it and as ai.onnx has it since opset 23.

#include "graph/expand/expand_attention.h"

#include <fmt/format.h>

#include <cmath>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {

double ScaleOf(const Writer& w, ValueId q) {
  const float scale = w.node().Float("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(w.Dim(q, -1)));
}

namespace {

// [0, columns) as [1,1,1,columns] of `type`.
ValueId Positions(Writer& w, std::int64_t columns, DataType type) {
  const ValueId range = w.Op("Range", {w.Number(0, DataType::kInt64),
                                       w.Number(static_cast<double>(columns), DataType::kInt64),
                                       w.Number(1, DataType::kInt64)});
  return w.Reshape(w.Cast(range, type), {1, 1, 1, columns});
}

// The keys before `ends` [batch] and not before `starts` [batch], if any.
ValueId KeepRange(Writer& w, ValueId ends, ValueId starts, std::int64_t keys) {
  const ValueId at = Positions(w, keys, w.TypeOf(ends));
  const ValueId keep = w.Op("Less", {at, w.Reshape(ends, {-1, 1, 1, 1})});
  if (starts == kNoValue) return keep;
  return Both(w, keep, w.Op("GreaterOrEqual", {at, w.Reshape(starts, {-1, 1, 1, 1})}));
}

}  // namespace

ValueId KeepOfMask(Writer& w, ValueId mask, const MaskOf& shape) {
  if (mask == kNoValue) return kNoValue;
  const Dims dims = w.DimsOf(mask);
  if (dims.size() == 1 && dims[0] == shape.batch) return KeepRange(w, mask, kNoValue, shape.keys);
  if (dims.size() == 1 && dims[0] == 2 * shape.batch) {
    const ValueId ends = w.Slice(mask, 0, 0, shape.batch);
    return KeepRange(w, ends, w.Slice(mask, 0, shape.batch, 2 * shape.batch), shape.keys);
  }
  const ValueId zero = w.Number(0, w.TypeOf(mask));
  const bool rows = dims == Dims{shape.batch, shape.keys};
  if (rows || dims == Dims{shape.batch, shape.queries, shape.keys}) {
    return w.Unsqueeze(w.Op("Greater", {mask, zero}),
                       rows ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1});
  }
  w.Refuse(w.context().Unimplemented(
      fmt::format("a mask of shape {} is not supported for {} rows, {} queries and {} keys",
                  ToString(dims), shape.batch, shape.queries, shape.keys)));
  return kNoValue;
}

namespace {

// The mask as numbers to add: 0 where a key is kept, otherwise mask_filter_value.
ValueId BiasOfMask(Writer& w, ValueId mask, const MaskOf& shape, DataType type) {
  const ValueId keep = KeepOfMask(w, mask, shape);
  if (keep == kNoValue) return kNoValue;
  const double filter = w.node().Float("mask_filter_value", -10000);
  return w.Op("Where", {keep, w.Number(0, type), w.Number(filter, type)});
}

/// The heads of queries, keys and values, and what came before them.
struct Heads {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  std::int64_t past = 0;
};

// What `unidirectional` keeps: a query keeps the past, and the keys up to its own place. As in ONNX
// Runtime, the last query keeps all keys, also where there are more keys than queries.
ValueId KeepCausal(Writer& w, std::int64_t queries, std::int64_t keys, std::int64_t past) {
  if (keys <= past + queries) return KeepBand(w, {queries, keys, past, -1, 0});
  if (queries == 1) return kNoValue;
  const ValueId all = TableOf(w, DataType::kBool, {1, 1, 1, keys}, [](std::int64_t) { return 1; });
  return w.Concat({KeepBand(w, {queries - 1, keys, past, -1, 0}), all}, 2);
}

// Attention with the masks that ONNX Runtime's ops have.
ValueId MaskedAttention(Writer& w, const Heads& heads, ValueId mask, ValueId bias) {
  HeadAttention attention{heads.q, heads.k, heads.v};
  const std::int64_t queries = w.Dim(heads.q, 2), keys = w.Dim(heads.k, 2);
  const DataType type = w.TypeOf(heads.q);
  attention.bias = BiasOfMask(w, mask, {w.Dim(heads.q, 0), queries, keys}, type);
  if (bias != kNoValue) attention.bias = w.AddIfAny(bias, attention.bias);
  if (w.node().Int("unidirectional", 0) != 0) {
    attention.keep = KeepCausal(w, queries, keys, heads.past);
  }
  attention.scale = ScaleOf(w, heads.q);
  return JoinHeads(w, Attend(w, attention));
}

// Sizes of queries, keys and values in the columns of the weights.
std::vector<std::int64_t> PartSizes(const Writer& w, std::int64_t columns) {
  return w.node().Ints("qkv_hidden_sizes", {columns / 3, columns / 3, columns / 3});
}

// [2,B,N,P,H]: the keys and the values of the past.
void JoinPast(Writer& w, ValueId past, Heads& heads) {
  if (past == kNoValue) return;
  heads.past = w.Dim(past, 3);
  const std::vector<ValueId> parts = w.Split(past, {1, 1}, 0);
  const ValueId zero = w.Ints({0});
  heads.k = w.Concat({w.Op("Squeeze", {parts[0], zero}), heads.k}, 2);
  heads.v = w.Concat({w.Op("Squeeze", {parts[1], zero}), heads.v}, 2);
}

void RefuseRotary(Writer& w) {
  for (const char* const name : {"do_rotary", "past_present_share_buffer"}) {
    if (w.node().Int(name, 0) == 0) continue;
    w.Refuse(w.context().Unimplemented(fmt::format("{} = 1 is not supported", name)));
  }
}

}  // namespace

void AttendProjected(Writer& w, const ProjectedAttention& inputs) {
  RefuseRotary(w);
  const std::vector<ValueId> parts =
      w.Split(inputs.projected, PartSizes(w, w.Dim(inputs.projected, -1)), -1);
  if (parts.size() != 3) {
    return w.Refuse(
        w.context().Invalid(fmt::format("qkv_hidden_sizes has {} sizes", parts.size())));
  }
  const std::int64_t count = w.node().Int("num_heads", 0);
  Heads heads{SplitHeads(w, parts[0], count), SplitHeads(w, parts[1], count),
              SplitHeads(w, parts[2], count)};
  JoinPast(w, inputs.past, heads);
  w.SetOutput(0, MaskedAttention(w, heads, inputs.mask, inputs.bias));
  if (!w.HasOutput(1)) return;
  w.SetOutput(1, w.Concat({w.Unsqueeze(heads.k, {0}), w.Unsqueeze(heads.v, {0})}, 0));
}

namespace {

// x, weights of queries, keys and values, their bias, [mask], [past], [bias of the scores]
void ExpandAttention(Writer& w) {
  const ValueId projected = w.AddIfAny(w.MatMul(w.In(0), w.In(1)), w.In(2));
  AttendProjected(w, {projected, w.In(3), w.In(4), w.In(5)});
}

// Parts of [B,S,N,parts,H] as heads [B,N,S,H].
std::vector<ValueId> Unpacked(Writer& w, ValueId packed, std::int64_t parts) {
  std::vector<ValueId> heads =
      w.Split(packed, std::vector<std::int64_t>(static_cast<std::size_t>(parts), 1), 3);
  const Dims dims = w.DimsOf(packed);
  if (w.status() && (dims.size() != 5 || dims[3] != parts)) {
    w.Refuse(w.context().Invalid("packed heads have shape " + ToString(dims)));
  }
  if (!w.status()) return heads;
  for (ValueId& part : heads) {
    part = w.Transpose(w.Reshape(part, {dims[0], dims[1], dims[2], dims[4]}), {0, 2, 1, 3});
  }
  return heads;
}

// Parts of the joint bias of queries, keys and values.
struct Biases {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
};
Biases SplitBias(Writer& w, ValueId bias, std::int64_t query, std::int64_t value) {
  if (bias == kNoValue) return {};
  const std::vector<ValueId> parts = w.Split(bias, {query, query, value}, 0);
  return {parts[0], parts[1], parts[2]};
}

// A tensor of heads, or one whose columns are divided into heads.
ValueId HeadsOf(Writer& w, ValueId x, ValueId bias, std::int64_t count) {
  if (w.RankOf(x) == 3) return SplitHeads(w, w.AddIfAny(x, bias), count);
  if (bias == kNoValue) return x;
  return w.Add(x, w.Reshape(bias, {count, 1, w.Dim(x, -1)}));
}

// The heads of a MultiHeadAttention: query, [key], [value], [bias].
Heads MultiHeads(Writer& w, std::int64_t count) {
  const ValueId q = w.In(0), k = w.In(1), v = w.In(2), bias = w.In(3);
  if (k == kNoValue) {
    if (bias != kNoValue) w.Refuse(w.context().Unimplemented("a bias of packed heads"));
    const std::vector<ValueId> parts = Unpacked(w, q, 3);
    return {parts[0], parts[1], parts[2]};
  }
  const std::int64_t width = w.Dim(q, -1);
  if (v == kNoValue) {
    if (bias != kNoValue) w.Refuse(w.context().Unimplemented("a bias of packed heads"));
    const std::vector<ValueId> parts = Unpacked(w, k, 2);
    return {HeadsOf(w, q, kNoValue, count), parts[0], parts[1]};
  }
  const std::int64_t value_width = w.RankOf(v) == 4 ? count * w.Dim(v, -1) : w.Dim(v, -1);
  const Biases biases = SplitBias(w, bias, width, value_width);
  return {HeadsOf(w, q, biases.q, count), HeadsOf(w, k, biases.k, count),
          HeadsOf(w, v, biases.v, count)};
}

// query, [key], [value], [bias], [mask of the keys], [bias of the scores], [past key], [past value]
void ExpandMultiHeadAttention(Writer& w) {
  for (std::size_t i = 8; i < w.context().input_count(); ++i) {
    if (w.In(i) == kNoValue) continue;
    w.Refuse(w.context().Unimplemented(fmt::format("input {} is not supported", i)));
  }
  Heads heads = MultiHeads(w, w.node().Int("num_heads", 0));
  if (w.In(6) != kNoValue) {
    heads.past = w.Dim(w.In(6), 2);
    heads.k = w.Concat({w.In(6), heads.k}, 2);
    heads.v = w.Concat({w.In(7), heads.v}, 2);
  }
  w.SetOutput(0, MaskedAttention(w, heads, w.In(4), w.In(5)));
  if (w.HasOutput(1)) w.SetOutput(1, heads.k);
  if (w.HasOutput(2)) w.SetOutput(2, heads.v);
}

constexpr std::string_view kAttentionAttributes =
    "i:do_rotary f:mask_filter_value i:num_heads i:past_present_share_buffer I:qkv_hidden_sizes "
    "i:rotary_embedding_dim f:scale i:unidirectional";

constexpr Expansion kAttentionExpansions[] = {
    {kMicrosoft, {"Attention", 1, 2, 6, 2, kAttentionAttributes}, ExpandAttention},
    {kMicrosoft,
     {"MultiHeadAttention", 1, 1, 10, 3,
      "f:mask_filter_value i:num_heads f:scale i:unidirectional"},
     ExpandMultiHeadAttention},
    {kMicrosoft, {"GroupQueryAttention", 1, 1, 11, 3, kGroupQueryAttributes}, ExpandGroupQuery},
    {"", {"Attention", 23, 3, 7, 4, kOnnxAttentionAttributes}, ExpandOnnxAttention},
};

}  // namespace

std::span<const Expansion> AttentionExpansions() { return kAttentionExpansions; }

}  // namespace lagoon
