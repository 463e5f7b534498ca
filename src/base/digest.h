#pragma once

#include <cstdint>
#include <string_view>

namespace lagoon {

/// XXH3 of 64 bits: for names of files, seeds, and against damage. No protection against an
/// attacker.
std::uint64_t Digest(std::string_view bytes);

}  // namespace lagoon
