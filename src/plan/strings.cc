#include "plan/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/bytes_tensor.h"

namespace lagoon {

Result<std::vector<StringElement>> StringsOf(std::span<const std::byte> data,
                                             std::size_t elements) {
  std::vector<StringElement> table;
  // The shape may name more elements than there are.
  table.reserve(std::min(elements, data.size() / kBytesLengthSize));
  LAGOON_RETURN_IF_ERROR(VisitBytesElements(data, elements, [&](std::string_view text) {
    table.push_back({text.data(), text.size()});
  }));
  return table;
}

Result<std::size_t> ProtocolBytes(std::span<const std::byte> table) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < table.size() / sizeof(StringElement); ++i) {
    const std::size_t size = StringAt(table.data(), i).text().size();
    if (size > std::numeric_limits<std::uint32_t>::max()) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("element {} has {} bytes, more than BYTES can hold", i, size));
    }
    bytes += kBytesLengthSize + size;
  }
  return bytes;
}

void WriteProtocolBytes(std::span<const std::byte> table, std::byte* to) {
  for (std::size_t i = 0; i < table.size() / sizeof(StringElement); ++i) {
    const std::string_view text = StringAt(table.data(), i).text();
    const auto size = static_cast<std::uint32_t>(text.size());
    std::memcpy(to, &size, kBytesLengthSize);
    if (size > 0) std::memcpy(to + kBytesLengthSize, text.data(), size);
    to += kBytesLengthSize + size;
  }
}

}  // namespace lagoon
