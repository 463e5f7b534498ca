#include "server/oip_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "server/fleet/repository.h"
#include "server/oip_json.h"
#include "server/unserved.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/fleet_control.h"

namespace lagoon {
namespace {

namespace http = boost::beast::http;

bool IsGenerate(Route::Kind kind) {
  return kind == Route::Kind::kModelGenerate || kind == Route::Kind::kModelGenerateStream;
}

template <typename T, typename Render>
HttpResponse JsonOr(const Result<T>& result, Render render) {
  return result ? HttpResponse::Json(render(*result)) : HttpResponse::Failure(result.error());
}

}  // namespace

bool AdminHandlers::Handle(const Route& route, const HttpRequest& request,
                           const std::shared_ptr<HttpReply>& reply) const {
  switch (route.kind) {
    case Route::Kind::kScheduler:
    case Route::Kind::kSchedulers:
      scheduler.Handle(request, reply);
      return true;
    case Route::Kind::kShares:
    case Route::Kind::kModelResize:
      shares.Handle(route, request, reply);
      return true;
    case Route::Kind::kFleet:
    case Route::Kind::kFleetPlacer:
    case Route::Kind::kFleetMembers:
    case Route::Kind::kFleetLeave:
    case Route::Kind::kRepositoryIndex:
    case Route::Kind::kRepositoryLoad:
    case Route::Kind::kRepositoryUnload:
      fleet.Handle(route, request, reply);
      return true;
    case Route::Kind::kLogging:
    case Route::Kind::kTraceSettings:
    case Route::Kind::kModelTraceSettings:
      reply->Send(settings.Handle(route, request));
      return true;
    default:
      return false;
  }
}

std::size_t AdminHandlers::MaxBodyBytes(Route::Kind kind) const {
  const bool load = kind == Route::Kind::kRepositoryLoad;
  return std::max(SchedulerHandler::kMaxBodyBytes, load ? fleet.MaxLoadBytes() : 0);
}

bool HasMethod(const Endpoint& endpoint, const HttpRequest& request, HttpReply& reply) {
  const auto name = http::to_string(request.method);
  if (endpoint.methods.find({name.data(), name.size()}) != std::string_view::npos) return true;
  reply.Send(HttpResponse::WrongMethod(request.target, endpoint.methods));
  return false;
}

std::size_t OipHandler::MaxBodyBytes(http::verb /*method*/, std::string_view target) const {
  const Route::Kind kind = ParseRoute(target).kind;
  if (kind == Route::Kind::kModelInfer) return std::numeric_limits<std::size_t>::max();
  if (IsGenerate(kind)) return GenerateHandler::kMaxBodyBytes;
  return handlers_.MaxBodyBytes(kind);
}

bool OipHandler::Changes(http::verb method, std::string_view target) const {
  const Route::Kind kind = ParseRoute(target).kind;
  return HttpHandler::Changes(method, target) && kind != Route::Kind::kModelInfer &&
         !IsGenerate(kind) && kind != Route::Kind::kRepositoryIndex;
}

void OipHandler::Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const Route route = ParseRoute(request.target);
  const Endpoint* endpoint = FindEndpoint(route.kind);
  if (endpoint == nullptr || !endpoint->ServedOn(Endpoint::Ports::kClients)) {
    return reply->Send(
        HttpResponse::Failure(404, fmt::format("nothing is served at {}", Quoted(request.target))));
  }
  if (!HasMethod(*endpoint, request, *reply)) return;
  const bool of_models =
      route.kind == Route::Kind::kRepositoryLoad || route.kind == Route::Kind::kRepositoryUnload;
  const bool served = !of_models || handlers_.fleet.model_control();  // else no port does it
  const bool changes = request.method == http::verb::post && !endpoint->change.empty() && served;
  if (changes && !options_.admin) return reply->Send(OnAdminPort(endpoint->change));
  if (route.kind == Route::Kind::kModelInfer) return clients_.infer.Handle(route, request, reply);
  if (IsGenerate(route.kind)) return clients_.generate.Handle(route, request, reply);
  if (RegionHandler::Has(route.kind)) return reply->Send(clients_.regions.Handle(route, request));
  if (!handlers_.Handle(route, request, reply)) reply->Send(Get(route));
}

// `what`: what this port does not do.
HttpResponse OipHandler::OnAdminPort(std::string_view what) const {
  return HttpResponse::Failure(
      403, fmt::format("{} on the metrics port, {}, not on this one; `lagoon serve "
                       "--allow-admin-on-http` allows it here",
                       what, admin_port_));
}

HttpResponse OipHandler::Get(const Route& route) const {
  switch (route.kind) {
    case Route::Kind::kLive:
      return HttpResponse::Json(R"({"live":true})");
    case Route::Kind::kReady:
      return Ready();
    case Route::Kind::kServer: {
      HttpResponse server = HttpResponse::Json(
          ServerMetadataJson({handlers_.fleet.model_control(), clients_.regions.on()}));
      server.fields = fmt::format("{}: {}\r\n", kServerField, id_);
      return server;
    }
    case Route::Kind::kStatistics:
    case Route::Kind::kModelStatistics:
      return JsonOr(core_.Statistics(route.model, route.version),
                    [](const auto& models) { return StatisticsJson(models); });
    case Route::Kind::kModel:
      return JsonOr(core_.Metadata(route.model, route.version), ModelMetadataJson);
    case Route::Kind::kModelReady:
      return ModelReady(route);
    case Route::Kind::kModelConfig: {
      const auto config = core_.Config(route.model, route.version);
      if (!config) return HttpResponse::Failure(config.error());
      return JsonOr(ModelConfigJson(*config), [](const std::string& json) { return json; });
    }
    default:
      break;
  }
  return HttpResponse::Failure(404, "nothing is served here");
}

HttpResponse OipHandler::Ready() const {
  if (IsReady(core_, options_.strict_readiness)) return HttpResponse::Json(R"({"ready":true})");
  std::string why = "it is loading models or draining";
  const FleetControl* const fleet = core_.fleet();
  if (core_.Ready()) {
    why = "a model failed to load, see POST /v2/repository/index";
  } else if (fleet != nullptr && fleet->ReadFleet().devices.empty()) {
    why = "its fleet has no members; POST /v2/fleet/members adds one";
  } else if (fleet != nullptr) {
    why = "no member of its fleet is ready (GET /v2/fleet says why), or it is draining";
  }
  return HttpResponse::Failure(503, "the server is not ready: " + why);
}

HttpResponse OipHandler::ModelReady(const Route& route) const {
  const Status ready = core_.ModelReady(route.model, route.version);
  return ready ? HttpResponse::Json(R"({"ready":true})") : HttpResponse::Failure(ready.error());
}

}  // namespace lagoon
