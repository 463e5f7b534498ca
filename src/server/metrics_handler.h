#pragma once

#include <prometheus/collectable.h>

#include "server/http/http_message.h"
#include "server/oip_handler.h"
#include "serving/core/inference.h"

namespace lagoon {

/// The core's statistics as Prometheus metrics: Triton's names (nv_inference_*) and ours
/// (lagoon_*). docs/guide/clients.md lists them.
class CoreMetrics final : public prometheus::Collectable {
 public:
  /// `core` is borrowed.
  explicit CoreMetrics(Inference& core) : core_(core) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Inference& core_;
};

/// The operator's port: GET /metrics, and requests that change the server.
class MetricsHandler final : public HttpHandler {
 public:
  /// All are borrowed. `fleet`: ServerOptions::fleet.
  MetricsHandler(Inference& core, const AdminHandlers& handlers, HttpHandler* fleet)
      : metrics_(core), handlers_(handlers), fleet_(fleet) {}

  std::size_t MaxBodyBytes(boost::beast::http::verb method, std::string_view target) const override;
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  CoreMetrics metrics_;
  const AdminHandlers handlers_;
  HttpHandler* const fleet_;
};

}  // namespace lagoon
