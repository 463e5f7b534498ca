// Attention over heads, as parts of other compositions.

#include <algorithm>
#include <cstring>

#include "graph/expand/parts.h"

namespace lagoon {
namespace {

double LowestOf(DataType type) {
  return type == DataType::kFloat16 ? -65504.0 : -3.3895313892515355e38;  // of bf16, in fp32 too
}

// Repeats each head of x `times` times.
ValueId RepeatedHeads(Writer& w, ValueId x, std::int64_t times) {
  if (times == 1) return x;
  const Dims dims = w.DimsOf(x);
  const Dims repeated{dims[0], dims[1], times, dims[2], dims[3]};
  const ValueId wide = w.Op("Expand", {w.Unsqueeze(x, {2}), w.Ints(repeated)});
  return w.Reshape(wide, {dims[0], dims[1] * times, dims[2], dims[3]});
}

ValueId Capped(Writer& w, ValueId scores, double softcap) {
  if (softcap == 0) return scores;
  return w.Scaled(w.Op("Tanh", {w.Scaled(scores, 1 / softcap)}), softcap);
}

bool CheckHeads(Writer& w, const HeadAttention& heads) {
  for (const ValueId x : {heads.q, heads.k, heads.v}) {
    if (w.status() && w.RankOf(x) != 4)
      w.Refuse(w.context().Invalid("its heads have no rank of 4"));
  }
  if (w.status() && (w.Dim(heads.k, 1) < 1 || w.Dim(heads.q, 1) % w.Dim(heads.k, 1) != 0 ||
                     w.Dim(heads.k, 1) != w.Dim(heads.v, 1))) {
    w.Refuse(w.context().Invalid("the heads of key and value do not divide those of the query"));
  }
  return w.status().has_value();
}

}  // namespace

ValueId Attend(Writer& w, const HeadAttention& heads) {
  if (!CheckHeads(w, heads)) return kNoValue;
  const std::int64_t times = w.Dim(heads.q, 1) / w.Dim(heads.k, 1);
  const ValueId k = RepeatedHeads(w, heads.k, times), v = RepeatedHeads(w, heads.v, times);
  ValueId scores = w.Scaled(w.MatMul(heads.q, w.SwapLastAxes(k)), heads.scale);
  if (heads.scores != nullptr) *heads.scores = scores;
  scores = Capped(w, scores, heads.softcap);
  if (heads.capped != nullptr) *heads.capped = scores;
  if (heads.keep != kNoValue) {
    const DataType type = w.TypeOf(scores);
    scores = w.Op("Where", {heads.keep, scores, w.Number(LowestOf(type), type)});
  }
  scores = w.AddIfAny(scores, heads.bias);
  const ValueId weights = w.Op("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  if (heads.weights != nullptr) *heads.weights = weights;
  return w.MatMul(weights, v);
}

ValueId SplitHeads(Writer& w, ValueId x, std::int64_t heads) {
  const std::int64_t width = w.Dim(x, 2);
  if (w.status() && (w.RankOf(x) != 3 || heads < 1 || width % heads != 0)) {
    w.Refuse(w.context().Invalid("does not divide " + ToString(w.DimsOf(x)) + " into " +
                                 std::to_string(heads) + " heads"));
  }
  if (!w.status()) return kNoValue;
  return w.Transpose(w.Reshape(x, {w.Dim(x, 0), w.Dim(x, 1), heads, width / heads}), {0, 2, 1, 3});
}

ValueId JoinHeads(Writer& w, ValueId x) {
  const Dims joined{w.Dim(x, 0), w.Dim(x, 2), w.Dim(x, 1) * w.Dim(x, 3)};
  return w.Reshape(w.Transpose(x, {0, 2, 1, 3}), joined);
}

ValueId KeepBand(Writer& w, const Band& band) {
  if (band.before < 0 && band.after < 0) return kNoValue;
  const Dims dims{1, 1, band.rows, band.columns};
  auto bytes = w.Allocate(DataType::kBool, dims);
  if (bytes == nullptr) return kNoValue;
  bool all = true;
  for (std::int64_t row = 0; row < band.rows; ++row) {
    for (std::int64_t column = 0; column < band.columns; ++column) {
      const std::int64_t distance = column - row - band.offset;
      const bool keep = (band.after < 0 || distance <= band.after) &&
                        (band.before < 0 || -distance <= band.before);
      (*bytes)[static_cast<std::size_t>(row * band.columns + column)] = std::byte{keep};
      all = all && keep;
    }
  }
  return all ? kNoValue : w.AddConstant({DataType::kBool, dims, std::move(bytes)});
}

ValueId Counted(Writer& w, std::int64_t count) {
  return TableOf(w, DataType::kInt64, {count},
                 [](std::int64_t i) { return static_cast<double>(i); });
}

ValueId Both(Writer& w, ValueId a, ValueId b) {
  if (a == kNoValue) return b;
  return b == kNoValue ? a : w.Op("And", {a, b});
}

}  // namespace lagoon
