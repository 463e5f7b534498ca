#pragma once

// conv2d with bf16 arithmetic. MakeConv2d and PackConv2dWeights call these functions if
// Conv2dSpec::precision asks for bf16.

#include <cstddef>
#include <vector>

#include "kernels/conv/bf16/bf16_unit.h"
#include "kernels/conv/bf16/conv2d_bf16_args.h"
#include "kernels/conv/conv2d.h"

namespace lagoon {

/// As MakeConv2d, on `unit`. `spec` must be checked and must not be a matrix-vector product.
Result<Kernel> MakeBf16Conv2d(const Conv2dSpec& spec, const Bf16Unit& unit);

std::size_t PackedBf16Conv2dWeightBytes(const Conv2dSpec& spec);
void PackBf16Conv2dWeights(const Conv2dSpec& spec, const float* weights, void* packed);

/// All arguments except the pointers.
struct Bf16ConvTiling {
  Bf16ConvArgs args;
  std::uint32_t blocks;
  std::size_t scratch_bytes;
};

/// Different ways to cut the output within the time limits of blocks, the best one first: at most
/// `count`, spread over block times from short to long.
std::vector<Bf16ConvTiling> TileBf16Conv2d(const Conv2dSpec& spec, const Bf16Unit& unit,
                                           std::size_t count);

/// Computes tile `block`; `args`: Bf16ConvArgs.
bool Bf16Conv2dBody(const void* args, std::uint32_t block, BlockContext& ctx);

}  // namespace lagoon
