#pragma once

// What the compositions of attention share among themselves.

#include <cstdint>
#include <string_view>

#include "graph/expand/writer.h"

namespace lagoon {

/// The attribute `scale`, or 1 / sqrt(size of a head of q).
double ScaleOf(const Writer& w, ValueId q);

/// Sizes of the scores that a mask is for.
struct MaskOf {
  std::int64_t batch = 0, queries = 0, keys = 0;
};
/// Which keys a mask of ONNX Runtime keeps, as bool that broadcasts to the scores. The mask has one
/// of these shapes: [batch] (the number of keys), [2 * batch] (ends, then starts), [batch,keys] or
/// [batch,queries,keys] (greater than 0: kept). kNoValue without a mask.
ValueId KeepOfMask(Writer& w, ValueId mask, const MaskOf& shape);

/// An op Attention of ONNX Runtime from its joint projection [batch,rows,columns] on.
struct ProjectedAttention {
  ValueId projected = kNoValue, mask = kNoValue, past = kNoValue;
  ValueId bias = kNoValue;  // of the scores
};
void AttendProjected(Writer& w, const ProjectedAttention& inputs);

inline constexpr std::string_view kGroupQueryAttributes =
    "i:do_rotary i:kv_num_heads i:local_window_size i:num_heads i:rotary_interleaved f:scale "
    "i:smooth_softmax f:softcap";
void ExpandGroupQuery(Writer& w);

inline constexpr std::string_view kOnnxAttentionAttributes =
    "i:is_causal i:kv_num_heads i:left_window_size i:q_num_heads i:qk_matmul_output_mode "
    "i:right_window_size f:scale f:softcap i:softmax_precision";
void ExpandOnnxAttention(Writer& w);

}  // namespace lagoon
