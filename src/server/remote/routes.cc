#include "server/remote/routes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace lagoon {
namespace {

using nlohmann::json;

constexpr std::size_t kMostNameBytes = 256;

tl::unexpected<Error> Bad(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, "routes: " + std::move(message));
}

/// A value of the client's, short enough for a message.
std::string ShownJson(const json& value) { return Quoted(DumpJson(value)); }

Status CheckName(const std::string& name) {
  if (!name.empty() && name.size() <= kMostNameBytes) return {};
  return Bad(fmt::format("the name {} has {} bytes; names have 1 to {}", Quoted(name), name.size(),
                         kMostNameBytes));
}

Status CheckAddress(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  int port = 0;
  if (colon != std::string::npos) {
    const char* end = address.data() + address.size();
    const auto parsed = std::from_chars(address.data() + colon + 1, end, port);
    if (parsed.ec != std::errc() || parsed.ptr != end) port = 0;
  }
  if (colon != std::string::npos && colon > 0 && port >= 1 && port <= 65535 &&
      address.size() <= kMostNameBytes) {
    return {};
  }
  return Bad(fmt::format("the address {} is not host:port, with the port of the member's gRPC",
                         Quoted(address)));
}

/// The text of a field. `where`: the object, for messages.
Result<std::string> TextOf(const json& object, const char* field, std::string_view where) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    return Bad(fmt::format("{} needs the text '{}'; it is {}", where, field, ShownJson(object)));
  }
  return found->get<std::string>();
}

Result<RouteMember> ParseMember(const json& value) {
  if (!value.is_object())
    return Bad(fmt::format("a member is {}, not an object", ShownJson(value)));
  RouteMember member;
  LAGOON_ASSIGN_OR_RETURN(member.name, TextOf(value, "name", "a member"));
  LAGOON_ASSIGN_OR_RETURN(member.address, TextOf(value, "address", "a member"));
  LAGOON_RETURN_IF_ERROR(CheckName(member.name));
  LAGOON_RETURN_IF_ERROR(CheckAddress(member.address));
  return member;
}

Status CheckMembers(const std::vector<RouteMember>& members) {
  if (members.size() > Routes::kMostMembers) {
    return Bad(
        fmt::format("{} members; an ingress has at most {}", members.size(), Routes::kMostMembers));
  }
  std::set<std::string_view> names;
  for (const RouteMember& member : members) {
    if (!names.insert(member.name).second) {
      return Bad(fmt::format("two members have the name {}", Quoted(member.name)));
    }
  }
  return {};
}

Result<RouteReplica> ParseReplica(const json& value, const std::string& model) {
  if (!value.is_object()) {
    return Bad(
        fmt::format("model {}: a replica is {}, not an object", Quoted(model), ShownJson(value)));
  }
  RouteReplica replica;
  LAGOON_ASSIGN_OR_RETURN(
      replica.member, TextOf(value, "member", fmt::format("a replica of model {}", Quoted(model))));
  const auto fraction = value.find("fraction");
  if (fraction == value.end() || !fraction->is_number()) {
    return Bad(fmt::format("model {}: a replica needs the number 'fraction'; it is {}",
                           Quoted(model), ShownJson(value)));
  }
  replica.fraction = fraction->get<double>();
  if (!(replica.fraction >= 0 && replica.fraction <= 1)) {
    return Bad(fmt::format("model {}: the fraction {} of member {} is not within 0 to 1",
                           Quoted(model), replica.fraction, Quoted(replica.member)));
  }
  return replica;
}

Result<std::vector<RouteReplica>> ParseReplicas(const json& value, const std::string& model,
                                                const std::set<std::string_view>& members) {
  if (!value.is_array()) {
    return Bad(fmt::format("model {}: {} is no list of replicas", Quoted(model), ShownJson(value)));
  }
  std::vector<RouteReplica> replicas;
  std::set<std::string> used;
  double sum = 0;
  for (const json& entry : value) {
    LAGOON_ASSIGN_OR_RETURN(RouteReplica replica, ParseReplica(entry, model));
    if (!members.contains(replica.member)) {
      return Bad(fmt::format("model {}: {} is no member", Quoted(model), Quoted(replica.member)));
    }
    if (!used.insert(replica.member).second) {
      return Bad(fmt::format("model {}: two replicas at member {}", Quoted(model),
                             Quoted(replica.member)));
    }
    sum += replica.fraction;
    replicas.push_back(std::move(replica));
  }
  // A model without any replica is known, and unavailable for now.
  if (!replicas.empty() && !(sum > 0)) {
    return Bad(fmt::format("model {}: no replica has a fraction above 0", Quoted(model)));
  }
  return replicas;
}

Status ParseModels(const json& value, Routes& routes) {
  if (!value.is_object())
    return Bad(fmt::format("'models' is {}, not an object", ShownJson(value)));
  std::set<std::string_view> members;
  for (const RouteMember& member : routes.members) members.insert(member.name);
  routes.models.emplace();
  for (const auto& [name, replicas] : value.items()) {
    LAGOON_RETURN_IF_ERROR(CheckName(name));
    LAGOON_ASSIGN_OR_RETURN((*routes.models)[name], ParseReplicas(replicas, name, members));
  }
  return {};
}

Status ParseMembers(const json& value, Routes& routes) {
  if (!value.is_array()) return Bad("'members' is missing, or no list");
  for (const json& entry : value) {
    LAGOON_ASSIGN_OR_RETURN(RouteMember member, ParseMember(entry));
    routes.members.push_back(std::move(member));
  }
  return CheckMembers(routes.members);
}

}  // namespace

Result<Routes> ParseRoutesJson(std::string_view text) {
  if (text.size() > Routes::kMostBytes) {
    return Bad(fmt::format("{} bytes, the limit is {}", text.size(), Routes::kMostBytes));
  }
  const json body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return Bad("the body is no JSON object");
  for (const auto& [key, value] : body.items()) {
    if (key != "epoch" && key != "members" && key != "models") {
      return Bad(fmt::format("unknown field {}; there are epoch, members, models", Quoted(key)));
    }
  }
  Routes routes;
  if (const auto epoch = body.find("epoch"); epoch != body.end()) {
    if (!epoch->is_number_unsigned()) {
      return Bad(fmt::format("'epoch' is {}, not a whole number from 0", ShownJson(*epoch)));
    }
    routes.epoch = epoch->get<std::uint64_t>();
  }
  LAGOON_RETURN_IF_ERROR(ParseMembers(body.value("members", json()), routes));
  if (const auto models = body.find("models"); models != body.end()) {
    LAGOON_RETURN_IF_ERROR(ParseModels(*models, routes));
  }
  return routes;
}

Result<Routes> ParseMemberList(std::string_view text) {
  Routes routes;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string address(text.substr(0, comma));
    LAGOON_RETURN_IF_ERROR(CheckAddress(address));
    routes.members.push_back({address, address});
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  LAGOON_RETURN_IF_ERROR(CheckMembers(routes.members));
  return routes;
}

}  // namespace lagoon
