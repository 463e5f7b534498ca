#pragma once

// Matrix times vector: a convolution with a single output pixel. Reading the weights once bounds
// the time, so they are packed for streaming: outputs in groups of kGemvGroup, the depth in
// vectors, [group][vector of the depth][output of the group][lane], padded with zeros. bf16 weights
// lie in pairs of vectors, [group][pair][output][lane][2]: a word of 32 bits holds the same lane of
// both.

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/tiling.h"

namespace lagoon {

inline constexpr std::uint32_t kGemvGroup = 4;

struct GemvArgs {
  const float* x;                // [depth]
  const float* weights;          // packed; bf16 for the bf16 body
  const float* bias;             // [outputs], may be null
  const float* residual;         // [outputs], may be null
  float* y;                      // [outputs]
  float low, high;               // limits of y; infinite for none
  Finish finish;                 // applied to the outputs of a block
  const float* finish_residual;  // may be null
  std::uint32_t depth, outputs;
  std::uint32_t groups, blocks;  // each block computes a share of the groups
  std::uint32_t chunk_vectors;   // vectors of the depth between two guard checks
};

/// Number of vectors of the packed depth.
constexpr std::size_t GemvVectors(std::size_t depth, std::size_t lanes, bool bf16) {
  return bf16 ? CeilDivide(depth, 2 * lanes) * 2 : CeilDivide(depth, lanes);
}

}  // namespace lagoon
