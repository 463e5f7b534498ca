#pragma once

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// The number of bytes of a table: one for each value of a byte.
inline constexpr std::size_t kByteTableSize = 256;

/// y[i] = table[x[i]], all UINT8; x and y have `count` elements, the table kByteTableSize. Inputs:
/// x, table. Output: y, which must not overlap an input. kInvalidArgument if `count` is 0 or too
/// large.
Result<Kernel> MakeByteTable(std::size_t count);

}  // namespace lagoon
