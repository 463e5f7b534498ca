#include "base/net/host_port.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace lagoon {
namespace {

constexpr std::size_t kMostHostBytes = 253;  // of a name in DNS

bool IsOneOf(std::string_view text, std::string_view also) {
  return !text.empty() && std::ranges::all_of(text, [also](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           also.find(c) != also.npos;
  });
}

std::optional<std::uint16_t> ParsePort(std::string_view digits) {
  std::uint16_t port = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stop != end || digits.starts_with('0')) return std::nullopt;
  return port;
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text, std::uint16_t port) {
  const auto bad = [](const char* why) { return Fail(ErrorCode::kInvalidArgument, why); };
  const bool brackets = text.starts_with('[');
  const std::size_t close = text.find(']');
  if (brackets && close == text.npos) return bad("it has '[' without ']'");
  const std::size_t colon = brackets ? close + 1 : std::min(text.rfind(':'), text.size());
  const std::string_view host = brackets ? text.substr(1, close - 1) : text.substr(0, colon);
  const std::string_view rest = text.substr(colon);
  if (host.empty()) return bad("it has no host");
  if (host.size() > kMostHostBytes) return bad("its host is longer than 253 bytes");
  if (brackets && (!IsOneOf(host, ":.%-_") || host.find(':') == host.npos)) {
    return bad("what it has in brackets is no IPv6 address");
  }
  if (!brackets && !IsOneOf(host, ".-_")) {
    return bad("its host is no name, no IPv4 address and no IPv6 address in brackets");
  }
  if (rest.empty() && port == 0) return bad("it has no port");
  if (rest.empty()) return HostPort{std::string(host), port};
  const auto parsed = rest.starts_with(':') ? ParsePort(rest.substr(1)) : std::nullopt;
  if (!parsed) return bad("its port is no number from 1 to 65535");
  return HostPort{std::string(host), *parsed};
}

std::string ToString(const HostPort& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + address.host + "]" : address.host;
  return host + ":" + std::to_string(address.port);
}

}  // namespace lagoon
