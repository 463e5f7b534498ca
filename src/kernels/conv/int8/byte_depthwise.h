#pragma once

// Depthwise convolutions of bytes.

#include <cstddef>

#include "kernels/conv/int8/byte_conv.h"

namespace lagoon {

/// As MakeByteConv, for one filter per channel: `in_channels` and `out_channels` are equal, and the
/// weights are [channels][1][kernel_h][kernel_w]. The result is bytes.
Result<Kernel> MakeByteDepthwise(const ByteConvSpec& spec,
                                 std::span<const ByteUnit* const> units = ByteUnits());

std::size_t PackedByteDepthwiseBytes(const ByteConvSpec& spec);
void PackByteDepthwise(const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed);

}  // namespace lagoon
