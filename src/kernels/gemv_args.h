#pragma once

// Matrix times vector: what a convolution over a single pixel is. Bound by reading the weights
// once, so they are packed for streaming: outputs in groups of kGemvGroup, the depth in vectors:
// [group][vector of the depth][output of the group][lane], zero where the shape ends. Weights of
// bf16 lie in pairs of vectors, [group][pair][output][lane][2]: a word of 32 bits holds a lane of
// both.

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/tiling.h"

namespace lagoon {

inline constexpr std::uint32_t kGemvGroup = 4;

struct GemvArgs {
  const float* x;                // [depth]
  const float* weights;          // packed; of bf16 for its body
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

/// Vectors of the depth, as packed.
constexpr std::size_t GemvVectors(std::size_t depth, std::size_t lanes, bool bf16) {
  return bf16 ? CeilDivide(depth, 2 * lanes) * 2 : CeilDivide(depth, lanes);
}

}  // namespace lagoon
