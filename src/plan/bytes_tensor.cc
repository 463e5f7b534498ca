#include "plan/bytes_tensor.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace lagoon {

void AppendBytesElement(std::string_view element, std::vector<std::byte>& data) {
  const auto length = static_cast<std::uint32_t>(element.size());
  const std::size_t at = data.size();
  data.resize(at + kBytesLengthSize + element.size());
  std::memcpy(data.data() + at, &length, kBytesLengthSize);
  if (!element.empty()) std::memcpy(data.data() + at + kBytesLengthSize, element.data(), length);
}

Status VisitBytesElements(std::span<const std::byte> data, std::size_t elements,
                          const std::function<void(std::string_view)>& visit) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < data.size(); ++count) {
    const std::size_t left = data.size() - at;
    std::uint32_t length = 0;
    if (left >= kBytesLengthSize) std::memcpy(&length, data.data() + at, kBytesLengthSize);
    if (left < kBytesLengthSize || length > left - kBytesLengthSize) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("element {} of BYTES leads beyond the end of its {} bytes", count,
                              data.size()));
    }
    if (count < elements) {
      visit({reinterpret_cast<const char*>(data.data()) + at + kBytesLengthSize, length});
    }
    at += kBytesLengthSize + length;
  }
  if (count == elements) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("has {} elements of BYTES, the shape needs {}", count, elements));
}

Status CheckBytesElements(std::span<const std::byte> data, std::size_t elements) {
  return VisitBytesElements(data, elements, [](std::string_view) {});
}

}  // namespace lagoon
