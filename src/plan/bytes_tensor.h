#pragma once

// Tensors of BYTES as the protocol sends them: for each element its length, in four bytes and
// little-endian, and then its bytes.

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// Bytes of the length before each element.
inline constexpr std::size_t kBytesLengthSize = 4;

void AppendBytesElement(std::string_view element, std::vector<std::byte>& data);

/// Calls `visit` for each element of `data`, in order. kInvalidArgument: an element leads beyond
/// the end of `data`, or there are not `elements` of them; both numbers are named.
Status VisitBytesElements(std::span<const std::byte> data, std::size_t elements,
                          const std::function<void(std::string_view)>& visit);

/// The same as a mere check.
Status CheckBytesElements(std::span<const std::byte> data, std::size_t elements);

}  // namespace lagoon
