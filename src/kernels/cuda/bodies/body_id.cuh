#pragma once

// The numbers of the bodies, as grid parameters contain them.

namespace lagoon::cuda {

/// Classes of bodies by registers and shared memory of a block, which limit the blocks per SM. A
/// class also contains the bodies of the lighter classes.
enum class EntryClass : unsigned { kLight, kMedium, kHeavy };

enum class BodyId : unsigned {
  // Light.
  kUnary,
  kBinary,
  kStridedCopy,
  kFlip,
  kGather,
  kSoftmax,
  kNormalize,
  kReduce,
  kPool,
  kGroupedConv,
  kMatmul,
  kSplitSum,
  kAttention,
  kCell,
  kConcat,
  kTake,
  kChannelAffine,
  kWhere,
  kCast,
  kTypedUnary,
  kTypedBinary,
  // Medium.
  kConv64x64Fp32,
  kConv64x64Tf32,
  kConv64x64Bf16,
  kConv64x64F16,
  kConv64x32Tf32,
  kConv64x32Bf16,
  kConv64x32F16,
  // Heavy.
  kConv128x128Tf32,
  kConv128x128Bf16,
  kConv128x128F16,
};

}  // namespace lagoon::cuda
