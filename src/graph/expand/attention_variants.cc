// Attention whose keys serve several heads of queries: GroupQueryAttention of ONNX Runtime.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "graph/expand/expand_attention.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

void RefuseInputs(Writer& w, std::size_t from) {
  for (std::size_t i = from; i < w.context().input_count(); ++i) {
    if (w.In(i) == kNoValue) continue;
    w.Refuse(w.context().Unimplemented(fmt::format("input {} is not supported", i)));
  }
}

void CheckCounts(Writer& w) {
  const std::int64_t heads = w.node().Int("num_heads", 0);
  const std::int64_t shared = w.node().Int("kv_num_heads", 0);
  if (!w.status() || (heads >= 1 && shared >= 1)) return;
  w.Refuse(w.context().Invalid(fmt::format("num_heads is {}, kv_num_heads is {}", heads, shared)));
}

// The heads of query, key and value, which the query may hold all.
HeadAttention GroupedHeads(Writer& w) {
  const std::int64_t heads = w.node().Int("num_heads", 0);
  const std::int64_t shared = w.node().Int("kv_num_heads", 0);
  std::vector<ValueId> parts{w.In(0), w.In(1), w.In(2)};
  if (!w.status()) return {};
  if (parts[1] == kNoValue) {
    const std::int64_t size = w.Dim(parts[0], -1) / (heads + 2 * shared);
    parts = w.Split(parts[0], {heads * size, shared * size, shared * size}, -1);
  }
  return {SplitHeads(w, parts[0], heads), SplitHeads(w, parts[1], shared),
          SplitHeads(w, parts[2], shared)};
}

struct GroupedPast {
  std::int64_t keys = 0;  // of the past, or those that its buffer has room for
  bool buffer = false;    // the new keys go into the buffer of the past
  bool first = false;     // there are only new keys
};

// If the past has room for all keys, it is a buffer, of which any part is in use. Otherwise all its
// keys are in use.
GroupedPast CheckedPast(Writer& w, std::int64_t rows) {
  GroupedPast past;
  if (w.In(3) == kNoValue) return past;
  past.keys = w.Dim(w.In(3), 2);
  const Result<std::vector<std::int64_t>> total =
      w.context().ConstantInts(6, "total_sequence_length");
  if (!total) {
    w.Refuse(tl::unexpected(total.error()));
    return past;
  }
  const std::int64_t keys = total->size() == 1 ? total->front() : -1;
  past.buffer = keys >= rows && keys <= past.keys;
  past.first = keys == rows;
  if (!past.buffer && keys != past.keys + rows) {
    w.Refuse(w.context().Unimplemented(
        fmt::format("total_sequence_length is {}; it must be {}, the keys of the past and the new "
                    "ones, or {} to {}, which the past has room for",
                    keys, past.keys + rows, rows, past.keys)));
  }
  return past;
}

// The rows of a batch may have different numbers of keys in the past.
struct RaggedPast {
  ValueId starts = kNoValue;     // of the new keys, [batch,1]
  ValueId positions = kNoValue;  // of the new keys, [batch,rows]
};

RaggedPast RaggedPastOf(Writer& w, std::int64_t batch, std::int64_t rows, bool first) {
  const ValueId last = w.Reshape(w.Cast(w.In(5), DataType::kInt64), {batch, 1});
  RaggedPast past;
  // A first prompt begins at 0, and its rows may be shorter.
  past.starts = first ? w.Op("Mul", {last, w.Number(0, DataType::kInt64)})
                      : w.Shifted(last, static_cast<double>(1 - rows));
  past.positions = w.Add(past.starts, Counted(w, rows));
  return past;
}

// Old keys [B,N,past,H] and new ones [B,N,rows,H], where each row has its new keys behind its own
// old ones. What comes behind them is not kept.
ValueId JoinRagged(Writer& w, ValueId old, ValueId added, const RaggedPast& past) {
  const std::int64_t before = w.Dim(old, 2), total = before + w.Dim(added, 2);
  const ValueId at = Counted(w, total);
  const ValueId behind =
      w.Op("Min", {w.Shifted(w.Sub(at, past.starts), static_cast<double>(before)),
                   w.Number(static_cast<double>(total - 1), DataType::kInt64)});
  const ValueId from = w.Op("Where", {w.Op("Less", {at, past.starts}), at, behind});
  const ValueId joined = w.Concat({old, added}, 2);
  const ValueId index = w.Op("Expand", {w.Unsqueeze(from, {1, 3}), w.Ints(w.DimsOf(joined))});
  return w.Op("GatherElements", {joined, index}, {{"axis", std::int64_t{2}}});
}

// With a buffer that takes the new keys. The caches are then outputs of one node, so that it can
// write into the inputs.
HeadAttention AppendedHeads(Writer& w, const RaggedPast& past) {
  ValueId x = w.In(0);
  if (w.In(1) != kNoValue) x = w.Concat({x, w.In(1), w.In(2)}, -1);
  std::vector<ValueId> inputs{x, past.positions, w.In(3), w.In(4)};
  if (w.node().Int("do_rotary", 0) != 0) {
    w.Need({7, 8});
    inputs.push_back(w.In(7));
    inputs.push_back(w.In(8));
  }
  const std::vector<ValueId> made =
      w.Nodes("RotateAppend", std::move(inputs),
              {{"heads", w.node().Int("num_heads", 0)},
               {"key_heads", w.node().Int("kv_num_heads", 0)},
               {"interleaved", w.node().Int("rotary_interleaved", 0)}},
              3);
  return {made[0], made[1], made[2]};
}

// The buffer `old` [B,N,keys,H] with the new keys [B,N,rows,H] at their positions.
ValueId JoinBuffer(Writer& w, ValueId old, ValueId added, const RaggedPast& past) {
  const ValueId index =
      w.Op("Expand", {w.Unsqueeze(past.positions, {1, 3}), w.Ints(w.DimsOf(added))});
  return w.Op("ScatterElements", {old, index, added}, {{"axis", std::int64_t{2}}});
}

// As KeepBand, for each row of the batch.
ValueId KeepRagged(Writer& w, std::int64_t keys, const RaggedPast& past, std::int64_t window) {
  const ValueId at = Counted(w, keys);
  const ValueId queries = w.Unsqueeze(past.positions, {1, 3});
  const ValueId keep = w.Op("LessOrEqual", {at, queries});
  if (window <= 0) return keep;
  return Both(w, keep, w.Op("Greater", {at, w.Shifted(queries, static_cast<double>(-window))}));
}

void RotateGrouped(Writer& w, HeadAttention& heads, std::int64_t past, const RaggedPast* ragged) {
  if (w.node().Int("do_rotary", 0) == 0) return;
  const std::int64_t rows = w.Dim(heads.q, 2);
  const bool given = w.In(9) != kNoValue;
  const auto angles = [&](ValueId table) {
    if (given) return w.Unsqueeze(w.Op("Gather", {table, w.In(9)}), {1});
    if (ragged != nullptr) return w.Unsqueeze(w.Op("Gather", {table, ragged->positions}), {1});
    return w.Unsqueeze(w.Slice(table, 0, past, past + rows), {0, 1});
  };
  const Rotation rotation{angles(w.In(7)), angles(w.In(8)),
                          w.node().Int("rotary_interleaved", 0) != 0};
  heads.q = Rotated(w, heads.q, rotation);
  heads.k = Rotated(w, heads.k, rotation);
}

void SetGrouped(Writer& w, HeadAttention& heads) {
  heads.bias = w.In(10);
  heads.scale = ScaleOf(w, heads.q);
  heads.softcap = w.node().Float("softcap", 0);
  w.SetOutput(0, JoinHeads(w, Attend(w, heads)));
  w.SetOutput(1, heads.k);
  w.SetOutput(2, heads.v);
}

}  // namespace

// query, [key], [value], [past key], [past value], the last index of each row's keys, the number of
// keys, [cos], [sin], [positions], [bias of the scores]
void ExpandGroupQuery(Writer& w) {
  RefuseInputs(w, 11);
  w.Need({5, 6});
  if (w.node().Int("smooth_softmax", 0) > 0) {
    w.Refuse(w.context().Unimplemented("smooth_softmax = 1 is not supported"));
  }
  CheckCounts(w);
  const std::int64_t batch = w.Dim(w.In(0), 0), rows = w.Dim(w.In(0), 1);
  const GroupedPast past = CheckedPast(w, rows);
  const std::int64_t window = std::max<std::int64_t>(w.node().Int("local_window_size", -1), 0);
  HeadAttention heads;
  if (past.keys > 0 && past.buffer && w.In(9) == kNoValue) {
    const RaggedPast ragged = RaggedPastOf(w, batch, rows, past.first);
    heads = AppendedHeads(w, ragged);
    heads.keep = KeepRagged(w, past.keys, ragged, window);
    return SetGrouped(w, heads);
  }
  heads = GroupedHeads(w);
  if (past.keys > 0 && (batch != 1 || past.buffer)) {
    const RaggedPast ragged = RaggedPastOf(w, batch, rows, past.buffer && past.first);
    RotateGrouped(w, heads, past.keys, &ragged);
    const auto join = past.buffer ? JoinBuffer : JoinRagged;
    heads.k = join(w, w.In(3), heads.k, ragged);
    heads.v = join(w, w.In(4), heads.v, ragged);
    heads.keep = KeepRagged(w, w.Dim(heads.k, 2), ragged, window);
  } else {
    RotateGrouped(w, heads, past.keys, nullptr);
    if (past.keys > 0) {
      heads.k = w.Concat({w.In(3), heads.k}, 2);
      heads.v = w.Concat({w.In(4), heads.v}, 2);
    }
    heads.keep = KeepBand(w, {rows, past.keys + rows, past.keys, window - 1, 0});
  }
  SetGrouped(w, heads);
}

}  // namespace lagoon
