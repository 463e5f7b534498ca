#pragma once

// Attention of heads as one kernel: neither scores nor probabilities leave the scratch memory.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// No row of scores is longer.
inline constexpr std::size_t kMaxAttentionKeys = 8192;

/// How an operand lies: strides in elements; 0 broadcasts.
struct AttentionView {
  std::size_t batch = 0, head = 0, row = 0, column = 1;
};

/// y = softmax(scale * q * transposed(k) + mask, over the keys) * v for every head.
struct AttentionSpec {
  std::size_t batch = 1, heads = 1, rows = 1;  // of q and y; a row is a query
  std::size_t keys = 1;                        // rows of k and v
  std::size_t depth = 1, value_depth = 1;      // columns of q and k, of v and y
  std::size_t sharing = 1;                     // neighbouring heads that read the same k and v
  AttentionView q, k, v, y;                    // v and y have column 1
  float scale = 1;
  /// fp32 [batch, heads, rows, keys], added to the scaled scores.
  bool mask = false;
  AttentionView mask_view;
  /// kBool of the same shape: where it is not `kept`, the score is `fill` instead, before the mask.
  bool keep = false;
  AttentionView keep_view;
  bool kept = true;
  float fill = 0;
};

/// Inputs: q, k, v, then mask and keep if the spec has them. Output: y; no overlap.
/// kInvalidArgument when a size is zero or too large, `sharing` does not divide the heads, or v or
/// y are not dense along their rows.
Result<Kernel> MakeAttention(const AttentionSpec& spec);

}  // namespace lagoon
