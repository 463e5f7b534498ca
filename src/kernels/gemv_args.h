#pragma once

// Matrix times vector: what a convolution over a single pixel is. Bound by reading the weights
// once, so they are packed for streaming: outputs in groups of kGemvGroup, the depth in vectors:
// [group][vector of the depth][output of the group][lane], zero where the shape ends.

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"

namespace lagoon {

inline constexpr std::uint32_t kGemvGroup = 4;

struct GemvArgs {
  const float* x;                // [depth]
  const float* weights;          // packed
  const float* bias;             // [outputs], may be null
  const float* residual;         // [outputs], may be null
  float* y;                      // [outputs]
  float low, high;               // limits of y; infinite for none
  Finish finish;                 // of a block's outputs
  const float* finish_residual;  // may be null
  std::uint32_t depth, outputs;
  std::uint32_t groups, blocks;  // a block computes a share of the groups
  std::uint32_t chunk_vectors;   // of the depth between two checks
};

}  // namespace lagoon
