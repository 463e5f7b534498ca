#pragma once

// How many parts a plan may have (Plan::part_ends).

#include <cstdint>

namespace lagoon {

/// In place of a number of parts: as many as are best (program/split/choose.h).
inline constexpr std::uint32_t kAutoParts = 0;
/// Bounds the time of a search for parts.
inline constexpr std::uint32_t kMaxPlanParts = 64;

}  // namespace lagoon
