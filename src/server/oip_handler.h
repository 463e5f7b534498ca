#pragma once

#include <cstddef>
#include <memory>

#include "server/extensions/region_handler.h"
#include "server/extensions/settings_handler.h"
#include "server/fleet/fleet_handler.h"
#include "server/generate/generate_handler.h"
#include "server/http/http_message.h"
#include "server/infer_handler.h"
#include "server/route.h"
#include "server/scheduler_handler.h"
#include "server/shares/share_handler.h"
#include "serving/core/inference.h"

namespace lagoon {

/// Handlers of requests that tell of the server or change it. All are borrowed.
struct AdminHandlers {
  SchedulerHandler& scheduler;
  ShareHandler& shares;
  FleetHandler& fleet;
  SettingsHandler& settings;

  /// Lets the handler of the route answer. Returns false if the route belongs to none of them.
  bool Handle(const Route& route, const HttpRequest& request,
              const std::shared_ptr<HttpReply>& reply) const;
  /// The most bytes that the body of a request to the route may have.
  std::size_t MaxBodyBytes(Route::Kind kind) const;
};

/// Handlers of what only clients ask for. All are borrowed.
struct ClientHandlers {
  InferHandler& infer;
  GenerateHandler& generate;
  RegionHandler& regions;
};

/// Whether the endpoint has the request's method. If not, answers 405.
bool HasMethod(const Endpoint& endpoint, const HttpRequest& request, HttpReply& reply);

/// The Open Inference Protocol over HTTP.
class OipHandler final : public HttpHandler {
 public:
  struct Options {
    bool admin = false;  // clients of this port may switch scheduler and placer, and move shares
    bool strict_readiness = false;  // see IsReady()
  };

  /// All are borrowed.
  OipHandler(Inference& core, const ClientHandlers& clients, const AdminHandlers& handlers,
             const Options& options)
      : core_(core), clients_(clients), handlers_(handlers), options_(options) {}

  /// The port that accepts such changes, to be named when this port refuses one. Must be called
  /// before the first request.
  void SetAdminPort(int port) { admin_port_ = port; }
  /// The id of the server (server_id.h). Must be called before the first request.
  void SetServerId(std::string id) { id_ = std::move(id); }

  /// Only inference requests may have large bodies.
  std::size_t MaxBodyBytes(boost::beast::http::verb method, std::string_view target) const override;
  bool Changes(boost::beast::http::verb method, std::string_view target) const override;
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  HttpResponse OnAdminPort(std::string_view what) const;
  HttpResponse Get(const Route& route) const;
  HttpResponse Ready() const;
  HttpResponse ModelReady(const Route& route) const;

  Inference& core_;
  const ClientHandlers clients_;
  const AdminHandlers handlers_;
  const Options options_;
  int admin_port_ = 0;
  std::string id_;
};

}  // namespace lagoon
