#pragma once

#include <cstddef>

namespace lagoon {

/// Sets the bytes to zero. Their whole pages take no memory of the machine until they are written
/// again, and are small pages from then on. The memory is private and anonymous, as that of `new`.
void ReleaseToZero(std::byte* at, std::size_t bytes);

}  // namespace lagoon
