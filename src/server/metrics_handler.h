#pragma once

#include <prometheus/collectable.h>

#include "server/http/http_message.h"
#include "server/scheduler_handler.h"
#include "server/shares/share_handler.h"
#include "serving/core.h"

namespace lagoon {

/// The core's statistics as Prometheus metrics: Triton's names (nv_inference_*) and ours
/// (lagoon_*). docs/guide/clients.md lists them.
class CoreMetrics final : public prometheus::Collectable {
 public:
  /// `core` is borrowed.
  explicit CoreMetrics(const InferenceCore& core) : core_(core) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const InferenceCore& core_;
};

/// The operator's port: GET /metrics, and requests that change the server.
class MetricsHandler final : public HttpHandler {
 public:
  /// All are borrowed. `fleet`: ServerOptions::fleet.
  MetricsHandler(const InferenceCore& core, SchedulerHandler& scheduler, ShareHandler& shares,
                 HttpHandler* fleet)
      : metrics_(core), scheduler_(scheduler), shares_(shares), fleet_(fleet) {}

  std::size_t MaxBodyBytes(boost::beast::http::verb method, std::string_view target) const override;
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  CoreMetrics metrics_;
  SchedulerHandler& scheduler_;
  ShareHandler& shares_;
  HttpHandler* const fleet_;
};

}  // namespace lagoon
