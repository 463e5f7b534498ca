#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lagoon {

/// Two lower-case digits per byte.
inline std::string HexOf(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace lagoon
