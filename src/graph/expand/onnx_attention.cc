// Attention of ai.onnx.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "graph/expand/expand_attention.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Which keys a query may see beside what the mask says.
struct Sight {
  std::int64_t before = -1, after = -1;  // as in Band
  std::int64_t past = 0;                 // keys before the first query
  ValueId lengths = kNoValue;            // the keys in use of each batch, [batch]
};

Sight SightOf(Writer& w) {
  Sight sight;
  sight.before = w.node().Int("left_window_size", -1);
  sight.after = w.node().Int("right_window_size", -1);
  if (sight.before < -1 || sight.after < -1) {
    w.Refuse(w.context().Invalid(
        fmt::format("left_window_size is {} and right_window_size is {}, they are -1 or more",
                    sight.before, sight.after)));
  }
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // behind every key
  sight.before = std::min(sight.before, kFar);
  sight.after = w.node().Int("is_causal", 0) != 0 ? 0 : std::min(sight.after, kFar);
  sight.past = w.In(4) == kNoValue ? 0 : w.Dim(w.In(4), 2);
  sight.lengths = w.In(6);
  const bool caches = w.In(4) != kNoValue || w.In(5) != kNoValue;
  if (sight.lengths != kNoValue && caches) {
    w.Refuse(w.context().Invalid("has both nonpad_kv_seqlen and a past"));
  }
  return sight;
}

// As KeepBand, where each batch has a number of keys in use: the queries are the last of these.
ValueId KeepInUse(Writer& w, const HeadAttention& heads, const Sight& sight) {
  const std::int64_t queries = w.Dim(heads.q, 2), batch = w.Dim(heads.q, 0);
  const ValueId at = Counted(w, w.Dim(heads.k, 2));
  const ValueId ends = w.Reshape(sight.lengths, {batch, 1, 1, 1});
  ValueId keep = w.Op("Less", {at, ends});
  if (sight.before < 0 && sight.after < 0) return keep;
  const ValueId rows = w.Reshape(Counted(w, queries), {queries, 1});
  const ValueId centre = w.Shifted(w.Add(ends, rows), static_cast<double>(-queries));
  if (sight.after >= 0) {
    const ValueId last = w.Shifted(centre, static_cast<double>(sight.after));
    keep = Both(w, keep, w.Op("LessOrEqual", {at, last}));
  }
  if (sight.before >= 0) {
    const ValueId first = w.Shifted(centre, static_cast<double>(-sight.before));
    keep = Both(w, keep, w.Op("GreaterOrEqual", {at, first}));
  }
  return keep;
}

// The mask. If it is for fewer than all keys, the others are not kept.
ValueId PaddedMask(Writer& w, std::int64_t keys) {
  const ValueId mask = w.In(3);
  if (mask == kNoValue || w.RankOf(mask) == 0) return mask;
  const std::int64_t missing = keys - w.Dim(mask, -1);
  if (missing <= 0 || (w.Dim(mask, -1) == 1 && w.context().opset() < 24)) return mask;
  const DataType type = w.TypeOf(mask);
  std::vector<std::int64_t> pads(2 * w.RankOf(mask), 0);
  pads.back() = missing;
  const double value = type == DataType::kBool ? 0 : kMinusInfinity;
  return w.Op("Pad", {mask, w.Ints(pads), w.Number(value, type)});
}

// What output 3 becomes: the scores (mode 0), the scores after softcap (1), with the mask (2), or
// the weights (3). Before opset 25 the releases of ONNX differ in what 1 and 2 are.
std::int64_t ModeOfScores(Writer& w) {
  const std::int64_t mode = w.node().Int("qk_matmul_output_mode", 0);
  if (!w.HasOutput(3) || mode == 0 || mode == 3) return mode;
  if ((mode == 1 || mode == 2) && w.context().opset() >= 25) return mode;
  w.Refuse(w.context().Unimplemented(fmt::format(
      "qk_matmul_output_mode is {}, supported are 0 and 3, and 1 and 2 from opset 25 on", mode)));
  return mode;
}

ValueId Masked(Writer& w, const HeadAttention& heads, ValueId scores) {
  if (heads.keep != kNoValue) {
    scores = w.Op("Where", {heads.keep, scores, w.Number(kMinusInfinity, w.TypeOf(scores))});
  }
  return w.AddIfAny(scores, heads.bias);
}

// `x` [B,N,S,..] with zeros in the rows of which no key is kept: there ONNX defines the result of
// the softmax as zero.
ValueId WithoutDeadRows(Writer& w, ValueId x, const HeadAttention& heads) {
  constexpr DataType kFloat = DataType::kFloat32;
  const ValueId lowest = w.Number(kMinusInfinity, kFloat);
  ValueId mask = heads.bias == kNoValue ? w.Number(0, kFloat) : w.Cast(heads.bias, kFloat);
  if (heads.keep != kNoValue) mask = w.Op("Where", {heads.keep, mask, lowest});
  const ValueId most = w.Op("ReduceMax", {mask, w.Ints({-1})});
  return w.Op("Where", {w.Op("Equal", {most, lowest}), w.Number(0, w.TypeOf(x)), x});
}

// The heads of query, key and value, behind those of the past.
HeadAttention HeadsOfInputs(Writer& w) {
  const bool joined = w.RankOf(w.In(0)) == 3;
  const auto split = [&](std::size_t i, const char* count) {
    return joined ? SplitHeads(w, w.In(i), w.node().Int(count, 0)) : w.In(i);
  };
  HeadAttention heads{split(0, "q_num_heads"), split(1, "kv_num_heads"), split(2, "kv_num_heads")};
  if (w.In(4) != kNoValue) {
    w.Need({5});
    heads.k = w.Concat({w.In(4), heads.k}, 2);
    heads.v = w.Concat({w.In(5), heads.v}, 2);
  }
  heads.scale = ScaleOf(w, heads.q);
  heads.softcap = w.node().Float("softcap", 0);
  return heads;
}

}  // namespace

// query, key, value, [mask], [past key], [past value], [keys in use]
void ExpandOnnxAttention(Writer& w) {
  HeadAttention heads = HeadsOfInputs(w);
  const Sight sight = SightOf(w);
  const std::int64_t queries = w.Dim(heads.q, 2), keys = w.Dim(heads.k, 2);
  heads.keep = sight.lengths != kNoValue
                   ? KeepInUse(w, heads, sight)
                   : KeepBand(w, {queries, keys, sight.past, sight.before, sight.after});
  const ValueId mask = PaddedMask(w, keys);
  const bool flags = w.TypeOf(mask) == DataType::kBool;
  (flags ? heads.keep : heads.bias) = flags ? Both(w, heads.keep, mask) : mask;
  const std::int64_t mode = ModeOfScores(w);
  ValueId shown = kNoValue;
  if (w.HasOutput(3)) {
    (mode == 0 ? heads.scores : mode == 3 ? heads.weights : heads.capped) = &shown;
  }
  ValueId y = Attend(w, heads);
  // Without these every query keeps a key.
  const bool bounded = mask != kNoValue || sight.lengths != kNoValue || sight.before >= 0;
  if (bounded && (heads.keep != kNoValue || heads.bias != kNoValue)) {
    y = WithoutDeadRows(w, y, heads);
    if (heads.weights != nullptr) shown = WithoutDeadRows(w, shown, heads);
  }
  if (w.HasOutput(3) && mode == 2) shown = Masked(w, heads, shown);
  w.SetOutput(0, w.RankOf(w.In(0)) == 3 ? JoinHeads(w, y) : y);
  if (w.HasOutput(1)) w.SetOutput(1, heads.k);
  if (w.HasOutput(2)) w.SetOutput(2, heads.v);
  w.SetOutput(3, shown);
}

}  // namespace lagoon
