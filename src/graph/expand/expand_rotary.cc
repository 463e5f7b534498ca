// Rotary embeddings: positions as angles by which pairs of columns turn.

#include <fmt/format.h>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

// The first and the second column of each pair, [..,R/2] each.
std::vector<ValueId> Pairs(Writer& w, ValueId x, bool interleaved, std::int64_t half) {
  if (!interleaved) return w.Split(x, {half, half}, -1);
  Dims dims = w.DimsOf(x);
  if (!dims.empty()) dims.pop_back();
  dims.push_back(half);
  Dims pairs = dims;
  pairs.push_back(2);
  std::vector<ValueId> columns = w.Split(w.Reshape(x, pairs), {1, 1}, -1);
  for (ValueId& column : columns) column = w.Reshape(column, dims);
  return columns;
}

ValueId JoinPairs(Writer& w, ValueId first, ValueId second, bool interleaved) {
  if (!interleaved) return w.Concat({first, second}, -1);
  Dims joined = w.DimsOf(first);
  const auto axis = static_cast<std::int64_t>(joined.size());
  if (!joined.empty()) joined.back() *= 2;
  return w.Reshape(w.Concat({w.Unsqueeze(first, {axis}), w.Unsqueeze(second, {axis})}, -1), joined);
}

}  // namespace

ValueId Rotated(Writer& w, ValueId x, const Rotation& rotation) {
  const std::int64_t half = w.Dim(rotation.cos, -1), width = w.Dim(x, -1);
  if (w.status() && (half < 1 || 2 * half > width || w.Dim(rotation.sin, -1) != half)) {
    w.Refuse(w.context().Invalid(fmt::format("turns {} pairs of {} columns", half, width)));
  }
  if (!w.status()) return kNoValue;
  std::vector<ValueId> parts{x};
  if (2 * half < width) parts = w.Split(x, {2 * half, width - 2 * half}, -1);
  const std::vector<ValueId> pair = Pairs(w, parts[0], rotation.interleaved, half);
  const auto turn = [&](const char* op, ValueId left, ValueId right) {
    const ValueId a = w.Mul(pair[0], left);
    const ValueId b = w.Mul(pair[1], right);
    return w.Op(op, {a, b});
  };
  const ValueId first = turn("Sub", rotation.cos, rotation.sin);
  const ValueId second = turn("Add", rotation.sin, rotation.cos);
  parts[0] = JoinPairs(w, first, second, rotation.interleaved);
  return parts.size() == 1 ? parts[0] : w.Concat(parts, -1);
}

namespace {

// x as heads [B,N,S,H]: of rank 4 it has this shape, of rank 3 its columns are divided.
ValueId ToHeads(Writer& w, ValueId x, std::int64_t heads, std::int64_t head_size) {
  if (w.RankOf(x) == 4) return x;
  if (heads == 0 && head_size > 0) heads = w.Dim(x, -1) / head_size;
  return SplitHeads(w, x, heads);
}

void Rotate(Writer& w, ValueId x, const Rotation& rotation) {
  ValueId y = Rotated(w, x, rotation);
  if (w.RankOf(w.In(0)) == 3) y = JoinHeads(w, y);
  w.SetOutput(0, y);
}

// [B,S,R/2] of each table, as [B,1,S,R/2]. Without positions the tables are per row already.
Rotation RotationAt(Writer& w, ValueId cos, ValueId sin, ValueId positions) {
  const auto at = [&](ValueId table) {
    if (positions != kNoValue) table = w.Op("Gather", {table, positions});
    return w.Unsqueeze(table, {1});
  };
  return {at(cos), at(sin), w.node().Int("interleaved", 0) != 0};
}

// x, positions, cos, sin. One position stands for the first row; the others follow.
void ExpandMicrosoftRotary(Writer& w) {
  if (w.node().Int("is_packed_batching", 0) != 0) {
    return w.Refuse(w.context().Unimplemented("is_packed_batching = 1 is not supported"));
  }
  const ValueId x = w.In(0), cos = w.In(2);
  const ValueId heads = ToHeads(w, x, w.node().Int("num_heads", 0), 2 * w.Dim(cos, -1));
  ValueId positions = w.In(1);
  if (w.RankOf(positions) == 1) {
    const DataType type = w.TypeOf(positions);
    const ValueId steps =
        w.Op("Range", {w.Number(0, type), w.Number(static_cast<double>(w.Dim(heads, 2)), type),
                       w.Number(1, type)});
    positions = w.Unsqueeze(w.Add(steps, positions), {0});
  }
  ValueId y = heads;
  const double scale = w.node().Float("scale", 1);
  if (scale != 1) w.Refuse(w.context().Unimplemented("a scale other than 1 is not supported"));
  Rotate(w, y, RotationAt(w, cos, w.In(3), positions));
}

// x, cos, sin, [positions]
void ExpandOnnxRotary(Writer& w) {
  const std::int64_t turning = w.node().Int("rotary_embedding_dim", 0);
  if (w.status() && turning != 0 && turning != 2 * w.Dim(w.In(1), -1)) {
    w.Refuse(w.context().Invalid(fmt::format("rotary_embedding_dim is {}, cos has {} columns",
                                             turning, w.Dim(w.In(1), -1))));
  }
  const ValueId heads = ToHeads(w, w.In(0), w.node().Int("num_heads", 0), 0);
  Rotate(w, heads, RotationAt(w, w.In(1), w.In(2), w.In(3)));
}

constexpr std::string_view kMicrosoftAttributes =
    "i:interleaved i:is_packed_batching i:num_heads i:rotary_embedding_dim f:scale";

constexpr Expansion kRotaryExpansions[] = {
    {kMicrosoft, {"RotaryEmbedding", 1, 4, 4, 1, kMicrosoftAttributes}, ExpandMicrosoftRotary},
    {"",
     {"RotaryEmbedding", 23, 3, 4, 1, "i:interleaved i:num_heads i:rotary_embedding_dim"},
     ExpandOnnxRotary},
};

}  // namespace

std::span<const Expansion> RotaryExpansions() { return kRotaryExpansions; }

}  // namespace lagoon
