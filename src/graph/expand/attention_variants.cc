// Attention whose keys serve several heads of queries: GroupQueryAttention, and Attention of
// ai.onnx.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/expand/expand_attention.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

double ScaleFor(const Writer& w, ValueId q) {
  const float scale = w.node().Float("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(w.Dim(q, -1)));
}

void RefuseInputs(Writer& w, std::size_t from) {
  for (std::size_t i = from; i < w.context().input_count(); ++i) {
    if (w.In(i) == kNoValue) continue;
    w.Refuse(w.context().Unimplemented(fmt::format("input {} is not supported", i)));
  }
}

// The heads of query, key and value, which the query may hold all.
HeadAttention GroupedHeads(Writer& w) {
  const std::int64_t heads = w.node().Int("num_heads", 0);
  const std::int64_t shared = w.node().Int("kv_num_heads", 0);
  std::vector<ValueId> parts{w.In(0), w.In(1), w.In(2)};
  if (w.status() && (heads < 1 || shared < 1)) {
    w.Refuse(
        w.context().Invalid(fmt::format("num_heads is {}, kv_num_heads is {}", heads, shared)));
  }
  if (!w.status()) return {};
  if (parts[1] == kNoValue) {
    const std::int64_t size = w.Dim(parts[0], -1) / (heads + 2 * shared);
    parts = w.Split(parts[0], {heads * size, shared * size, shared * size}, -1);
  }
  return {SplitHeads(w, parts[0], heads), SplitHeads(w, parts[1], shared),
          SplitHeads(w, parts[2], shared)};
}

// The number of keys of the past, all of which are in use: the past is no buffer with room at its
// end.
std::int64_t CheckedPast(Writer& w, std::int64_t batch, std::int64_t rows) {
  if (w.In(3) == kNoValue) return 0;
  const std::int64_t past = w.Dim(w.In(3), 2);
  const Result<std::vector<std::int64_t>> total =
      w.context().ConstantInts(6, "total_sequence_length");
  if (!total) {
    w.Refuse(tl::unexpected(total.error()));
  } else if (total->size() != 1 || total->front() != past + rows) {
    w.Refuse(w.context().Unimplemented(
        fmt::format("total_sequence_length must be {}, the keys of the past and the new ones; a "
                    "buffer with room for more keys is not supported",
                    past + rows)));
  } else if (batch != 1 && past != 0) {
    w.Refuse(w.context().Unimplemented(fmt::format(
        "a batch of {} with keys of the past, of which each row may have others", batch)));
  }
  return past;
}

void RotateGrouped(Writer& w, HeadAttention& heads, std::int64_t past) {
  if (w.node().Int("do_rotary", 0) == 0) return;
  const std::int64_t rows = w.Dim(heads.q, 2);
  const bool given = w.In(9) != kNoValue;
  const auto angles = [&](ValueId table) {
    if (given) return w.Unsqueeze(w.Op("Gather", {table, w.In(9)}), {1});
    return w.Unsqueeze(w.Slice(table, 0, past, past + rows), {0, 1});
  };
  const Rotation rotation{angles(w.In(7)), angles(w.In(8)),
                          w.node().Int("rotary_interleaved", 0) != 0};
  heads.q = Rotated(w, heads.q, rotation);
  heads.k = Rotated(w, heads.k, rotation);
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
  HeadAttention heads = GroupedHeads(w);
  const std::int64_t rows = w.Dim(heads.q, 2);
  const std::int64_t past = CheckedPast(w, w.Dim(heads.q, 0), rows);
  RotateGrouped(w, heads, past);
  if (past > 0) {
    heads.k = w.Concat({w.In(3), heads.k}, 2);
    heads.v = w.Concat({w.In(4), heads.v}, 2);
  }
  const std::int64_t window = w.node().Int("local_window_size", -1);
  heads.keep = KeepTriangle(w, {rows, past + rows, past, std::max<std::int64_t>(window, 0)});
  heads.bias = w.In(10);
  heads.scale = ScaleFor(w, heads.q);
  heads.softcap = w.node().Float("softcap", 0);
  w.SetOutput(0, JoinHeads(w, Attend(w, heads)));
  w.SetOutput(1, heads.k);
  w.SetOutput(2, heads.v);
}

// query, key, value, [mask], [past key], [past value]
void ExpandOnnxAttention(Writer& w) {
  if (w.HasOutput(3)) w.Refuse(w.context().Unimplemented("output 3, the scores, is not supported"));
  const bool joined = w.RankOf(w.In(0)) == 3;
  const auto split = [&](std::size_t i, const char* count) {
    return joined ? SplitHeads(w, w.In(i), w.node().Int(count, 0)) : w.In(i);
  };
  HeadAttention heads{split(0, "q_num_heads"), split(1, "kv_num_heads"), split(2, "kv_num_heads")};
  std::int64_t past = 0;
  if (w.In(4) != kNoValue) {
    past = w.Dim(w.In(4), 2);
    heads.k = w.Concat({w.In(4), heads.k}, 2);
    heads.v = w.Concat({w.In(5), heads.v}, 2);
  }
  if (w.node().Int("is_causal", 0) != 0) {
    heads.keep = KeepTriangle(w, {w.Dim(heads.q, 2), w.Dim(heads.k, 2), past, 0});
  }
  const bool flags = w.TypeOf(w.In(3)) == DataType::kBool;
  (flags ? heads.keep : heads.bias) = flags ? Both(w, heads.keep, w.In(3)) : w.In(3);
  heads.scale = ScaleFor(w, heads.q);
  heads.softcap = w.node().Float("softcap", 0);
  const ValueId y = Attend(w, heads);
  w.SetOutput(0, joined ? JoinHeads(w, y) : y);
  if (w.HasOutput(1)) w.SetOutput(1, heads.k);
  if (w.HasOutput(2)) w.SetOutput(2, heads.v);
}

}  // namespace lagoon
