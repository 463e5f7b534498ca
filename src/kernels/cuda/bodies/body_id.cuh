#pragma once

// The numbers of the bodies, as grid parameters contain them.

namespace lagoon::cuda {

/// Classes of bodies by registers and shared memory of a block, which limit the blocks per SM. A
/// class also contains the bodies of the lighter classes.
enum class EntryClass : unsigned { kLight, kMedium, kHeavy };

// clang-format off
/// The light bodies. kName is the function NameBody, which takes NameArgs (args.cuh).
#define LAGOON_LIGHT_BODIES(BODY)                                           \
  BODY(Unary) BODY(Binary) BODY(StridedCopy) BODY(Flip) BODY(Gather)        \
  BODY(Softmax) BODY(Normalize) BODY(Reduce) BODY(Pool) BODY(GroupedConv)   \
  BODY(Matmul) BODY(SplitSum) BODY(Attention) BODY(Cell) BODY(Concat)       \
  BODY(Take) BODY(ChannelAffine) BODY(Where) BODY(Cast) BODY(TypedUnary)    \
  BODY(TypedBinary)

enum class BodyId : unsigned {
#define LAGOON_BODY_ID(name) k##name,
  LAGOON_LIGHT_BODIES(LAGOON_BODY_ID)
#undef LAGOON_BODY_ID
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
// clang-format on

}  // namespace lagoon::cuda
