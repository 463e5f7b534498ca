#include "serving/fleet/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostNameBytes = 256;

bool IsOneOf(std::string_view text, std::string_view also) {
  return !text.empty() && std::ranges::all_of(text, [also](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           also.find(c) != also.npos;
  });
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
bool IsHost(std::string_view text) {
  if (!text.starts_with('[')) return IsOneOf(text, ".-_");
  if (text.size() < 4 || !text.ends_with(']')) return false;
  const std::string_view inner = text.substr(1, text.size() - 2);
  return IsOneOf(inner, ":.%-_") && inner.find(':') != inner.npos;
}

}  // namespace

bool IsAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.size() > kMostNameBytes) return false;
  const std::string_view digits = text.substr(colon + 1);
  int port = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= 65535 &&
         !digits.starts_with('0') && IsHost(text.substr(0, colon));
}

Status CheckJoin(const FleetJoin& join) {
  if (join.name.empty() || join.name.size() > kMostNameBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the name {} of a member has {} bytes; names have 1 to {}",
                            Quoted(join.name), join.name.size(), kMostNameBytes));
  }
  const auto control = std::ranges::find_if(join.name, [](char c) {
    return (c >= 0 && c < ' ') || c == 127;  // other bytes are of UTF-8
  });
  if (control != join.name.end()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the name {} of a member has the byte {} at {}; names have no control "
                    "characters, as a newline is one",
                    Quoted(join.name), static_cast<int>(*control), control - join.name.begin()));
  }
  if (IsAddress(join.address)) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("member {}: the address {} is not host:port, with one host (a name, an IPv4 "
                  "address, or an IPv6 address in brackets), the port of its gRPC (1 to "
                  "65535), and nothing else",
                  Quoted(join.name), Quoted(join.address)));
}

}  // namespace lagoon
