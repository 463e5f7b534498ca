#pragma once

// Tensors of kString in memory: a table of the places where the bytes of the elements lie.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// An element of a tensor of kString. Whoever hands out the tensor keeps the bytes alive for as
/// long as the tensor is read.
struct StringElement {
  const char* data = nullptr;
  std::uint64_t size = 0;

  /// An element without `data`, as memory of zeros has it, is padding or made up. It reads as "0",
  /// which ops that expect a number in a string take too.
  std::string_view text() const {
    return data == nullptr ? std::string_view("0") : std::string_view(data, size);
  }
};

/// Element `index` of a tensor, at any alignment.
inline StringElement StringAt(const void* table, std::size_t index) {
  StringElement element;
  std::memcpy(&element, static_cast<const std::byte*>(table) + index * sizeof(element),
              sizeof(element));
  return element;
}

/// The tensor of the `elements` strings that `data` has in the protocol's form (bytes_tensor.h).
/// Borrows `data`. kInvalidArgument: VisitBytesElements().
Result<std::vector<StringElement>> StringsOf(std::span<const std::byte> data, std::size_t elements);

/// Bytes that the strings of a tensor take in the protocol's form. kResourceExhausted: an element
/// is longer than that form allows.
Result<std::size_t> ProtocolBytes(std::span<const std::byte> table);
/// Writes the protocol's form: ProtocolBytes() bytes.
void WriteProtocolBytes(std::span<const std::byte> table, std::byte* to);

}  // namespace lagoon
