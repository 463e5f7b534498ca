#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/unfilled.h"

namespace lagoon {

/// `parts` one behind the other, compressed at the fastest level: as gzip, or as zlib data, which
/// HTTP calls deflate. The result lies in few pieces, which together take little more memory than
/// their bytes. Throws std::bad_alloc.
std::vector<UnfilledBytes> Deflate(std::span<const std::span<const std::byte>> parts, bool gzip);

}  // namespace lagoon
