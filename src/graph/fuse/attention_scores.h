#pragma once

// Reads the scores of an attention backwards, from the operand of the Softmax to the product of
// queries and keys. Exporters merge batch and heads into one axis for the products, and split the
// axis where a mask is added. Where the batch consists of windows of images, exporters split it
// into images and windows, to add a mask per window. These Reshapes are looked through.

#include <optional>

#include "graph/graph.h"
#include "graph/graph_edit.h"

namespace lagoon {

/// How the first axis of a tensor [batch * heads, rows, columns] divides.
struct HeadSplit {
  std::int64_t batch = 1, heads = 1;
};

/// The dims of a tensor of fp32, as batch, heads, rows and columns; nothing if the value is no
/// tensor of rank 4, and none of rank 3 that `split` divides.
std::optional<Dims> HeadDims(const GraphEditor& editor, ValueId value, const HeadSplit& split);

/// If `value` is a Reshape that merges or splits batch and heads only: its operand.
std::optional<ValueId> BehindHeadReshape(const GraphEditor& editor, ValueId value);

/// What is known about the scores.
struct AttentionScores {
  const Node* product = nullptr;   // of queries and keys
  std::optional<HeadSplit> split;  // if a tensor on the way has rank 4 or 5
  ValueId mask = kNoValue;         // added to the scores
  /// Of rank 4. A batch that is neither 1 nor that of the scores divides it: the mask repeats.
  Dims mask_dims;
  ValueId keep = kNoValue;  // bool; the score is `fill` where an element differs from `kept`
  Dims keep_dims;           // of rank 4
  bool kept = true;
  double fill = 0;
  double scale = 1;
  std::optional<double> floor;  // the least score, after the mask
  /// An Add that only this attention needs, and that becomes the sum of two masks; else nothing.
  std::optional<std::size_t> mask_sum;
  ValueId second_mask = kNoValue;  // of the sum
  Dims sum_dims;                   // as both masks broadcast; as many elements as mask_dims has
};

/// The scores behind `value`, which the Softmax reads; nothing if they are no product of two
/// computed matrices.
std::optional<AttentionScores> ReadAttentionScores(const GraphEditor& editor, ValueId value);

}  // namespace lagoon
