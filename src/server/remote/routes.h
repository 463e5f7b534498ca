#pragma once

// Which member of a fleet serves which model: what a controller tells the ingress.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lagoon {

struct RouteMember {
  std::string name;
  std::string address;  // host:port of its gRPC

  bool operator==(const RouteMember&) const = default;
};

struct RouteReplica {
  std::string member;   // RouteMember::name
  double fraction = 1;  // of the model's requests, 0 to 1

  bool operator==(const RouteReplica&) const = default;
};

struct Routes {
  static constexpr std::size_t kMostMembers = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // of the JSON

  /// Rises with each controller that takes the lead: the ingress refuses routes of an earlier one
  /// (IsLater()).
  std::uint64_t epoch = 0;
  std::vector<RouteMember> members;
  /// The replicas of each model. Empty: every model goes in equal parts to all members that have
  /// it.
  std::optional<std::map<std::string, std::vector<RouteReplica>>> models;

  bool operator==(const Routes&) const = default;
};

/// Whether epoch `a` comes after `b`: it is ahead by less than 2^63. After the largest number comes
/// 0, so that each epoch has a later one, whatever somebody has sent.
constexpr bool IsLater(std::uint64_t a, std::uint64_t b) {
  return a != b && a - b < std::uint64_t{1} << 63;
}

/// Reads {"epoch": 3, "members": [{"name": "a", "address": "10.0.0.1:8001"}],
///        "models": {"digits": [{"member": "a", "fraction": 1}]}}.
/// "epoch" and "models" may be absent. kInvalidArgument names the field and its value; also for a
/// name that is empty or appears twice, an address without a port, a replica of an unknown member,
/// and a model without a fraction above 0.
Result<Routes> ParseRoutesJson(std::string_view text);

/// Reads "host:port,host:port,...": members that are named by their addresses, and no models.
/// kInvalidArgument as above.
Result<Routes> ParseMemberList(std::string_view text);

}  // namespace lagoon
