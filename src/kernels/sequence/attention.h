#pragma once

// Attention over several heads as one kernel: scores and probabilities stay in scratch memory.

#include <cstddef>
#include <limits>

#include "kernels/kernel.h"

namespace lagoon {

/// Longest row of scores, which lies in scratch memory: 512 KiB.
inline constexpr std::size_t kMaxAttentionKeys = std::size_t{1} << 17;

/// Layout of an operand: strides in elements; 0 broadcasts.
struct AttentionView {
  std::size_t batch = 0, head = 0, row = 0, column = 1;
};

/// y = softmax(max(scale * q * transposed(k) + mask, floor), over the keys) * v for every head.
struct AttentionSpec {
  std::size_t batch = 1, heads = 1, rows = 1;  // sizes of q and y; each row is one query
  std::size_t keys = 1;                        // rows of k and v
  std::size_t depth = 1, value_depth = 1;      // columns of q and k; columns of v and y
  std::size_t sharing = 1;   // number of neighbouring heads that read the same k and v
  AttentionView q, k, v, y;  // v and y must have column stride 1
  float scale = 1;
  /// Whether there is a mask: fp32 [batch, heads, rows, keys], added to the scaled scores.
  bool mask = false;
  AttentionView mask_view;
  /// The mask repeats after so many of the batch; 0: it does not repeat.
  std::size_t mask_batches = 0;
  /// Whether there is a keep tensor: kBool of the mask's shape. Where an element differs from
  /// `kept`, `fill` replaces the score, before the mask is added.
  bool keep = false;
  AttentionView keep_view;
  bool kept = true;
  float fill = 0;
  /// The least score: what is below becomes it, after the mask is added.
  float floor = -std::numeric_limits<float>::infinity();
};

/// Inputs: q, k, v, then mask and keep if the spec has them. Output: y, which must not overlap an
/// input. kInvalidArgument if a size is zero or too large, `sharing` does not divide the heads,
/// `mask_batches` does not divide the batch, or the rows of v or y are not dense.
Result<Kernel> MakeAttention(const AttentionSpec& spec);

}  // namespace lagoon
