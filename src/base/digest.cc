#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lagoon {

std::uint64_t Digest(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace lagoon
