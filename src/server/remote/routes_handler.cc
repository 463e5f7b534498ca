#include "server/remote/routes_handler.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"

namespace lagoon {
namespace {

namespace http = boost::beast::http;
using nlohmann::json;

constexpr std::string_view kPath = "/v2/fleet/routes";

}  // namespace

std::size_t RoutesHandler::MaxBodyBytes(http::verb /*method*/, std::string_view /*target*/) const {
  return Routes::kMostBytes;
}

void RoutesHandler::Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  if (path != kPath) {
    return reply->Send(HttpResponse::Failure(
        404, fmt::format("nothing is served at {}, routes are at {}", Quoted(path), kPath)));
  }
  if (request.method != http::verb::get && request.method != http::verb::post) {
    return reply->Send(HttpResponse::WrongMethod(path, "GET, POST"));
  }
  if (request.method == http::verb::post) {
    const auto routes =
        ParseRoutesJson({reinterpret_cast<const char*>(request.body.data()), request.body.size()});
    if (!routes) return reply->Send(HttpResponse::Failure(routes.error()));
    const Status set = core_.SetRoutes(*routes);
    if (!set) return reply->Send(HttpResponse::Failure(set.error()));
  }
  reply->Send(Tell());
}

HttpResponse RoutesHandler::Tell() const {
  const Routes routes = core_.routes();
  json body = {{"epoch", routes.epoch}, {"retries", core_.retries()}};
  body["members"] = json::array();
  for (const MemberState& member : core_.Members()) {
    body["members"].push_back({{"name", member.name},
                               {"address", member.address},
                               {"ready", member.ready},
                               {"in_flight", member.in_flight},
                               {"models", member.models}});
  }
  if (routes.models) {
    body["models"] = json::object();
    for (const auto& [model, replicas] : *routes.models) {
      json& list = body["models"][model] = json::array();
      for (const RouteReplica& replica : replicas) {
        list.push_back({{"member", replica.member}, {"fraction", replica.fraction}});
      }
    }
  }
  return HttpResponse::Json(DumpJson(body));
}

}  // namespace lagoon
