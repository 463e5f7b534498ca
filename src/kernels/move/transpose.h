#pragma once

// Permutation of axes, as between NCHW and NHWC.

#include <cstdint>
#include <span>

#include "kernels/kernel.h"

namespace lagoon {

inline constexpr std::size_t kMaxTransposeRank = 16;

/// y.dims[i] == x.dims[permutation[i]]. Input x, output y, which must not overlap x.
/// `element_bytes`: 1, 2, 4 or 8. kInvalidArgument names the values if the rank is zero or above
/// kMaxTransposeRank, a size is not positive, or `permutation` is not a permutation.
Result<Kernel> MakeTranspose(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> permutation,
                             std::size_t element_bytes = 4);

/// A matrix of bytes [rows][columns] as [columns][rows], here and now. Neither may be 0, and `to`
/// must not overlap `from`.
void TransposeBytes(const std::uint8_t* from, std::size_t rows, std::size_t columns,
                    std::uint8_t* to);

}  // namespace lagoon
