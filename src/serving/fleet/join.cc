#include "serving/fleet/join.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/net/host_port.h"
#include "base/text.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostNameBytes = 256;

}  // namespace

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
  const auto parsed = ParseHostPort(join.address);
  if (parsed) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("member {}: the address {} is not host:port of its gRPC: {}",
                          Quoted(join.name), Quoted(join.address), parsed.error().message));
}

}  // namespace lagoon
