#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lagoon {

/// Where a server listens.
struct HostPort {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  std::uint16_t port = 0;
};

/// Reads HOST:PORT, with an IPv6 address in brackets, and a port of 1 to 65535 without zeros before
/// it. `port`: that of a text without one; 0: the text must have one. kInvalidArgument: its message
/// says what is wrong, as "it has no host", and does not quote the text.
Result<HostPort> ParseHostPort(std::string_view text, std::uint16_t port = 0);

/// HOST:PORT, with an IPv6 address in brackets.
std::string ToString(const HostPort& address);

}  // namespace lagoon
