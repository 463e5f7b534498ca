#include "serving/fleet/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostNameBytes = 256;

}  // namespace

bool IsAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > kMostNameBytes) return false;
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= 65535;
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
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("member {}: the address {} is not host:port, with the port of its gRPC",
                          Quoted(join.name), Quoted(join.address)));
}

}  // namespace lagoon
