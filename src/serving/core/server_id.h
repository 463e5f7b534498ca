#pragma once

// What tells servers apart that call each other.

#include <cstddef>
#include <string>
#include <string_view>

namespace lagoon {

class Inference;

inline constexpr std::size_t kServerIdBytes = 16;

/// A random id: 16 hexadecimal digits. Each server has its own from its start on.
std::string NewServerId();
/// Whether the text may be one.
bool IsServerId(std::string_view text);

/// The id of the server of `core`: that of its fleet, which sends the id on with requests, else a
/// new one.
std::string ServerIdOf(Inference& core);

/// A request may come through so many fronts, one behind the other.
inline constexpr std::size_t kMostFronts = 16;

}  // namespace lagoon
