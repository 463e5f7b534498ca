#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/http/http_message.h"
#include "server/oip_handler.h"
#include "server/telemetry/span_exporter.h"
#include "serving/core/inference.h"

namespace lagoon {

/// What is known of a family of metrics before there are values.
struct MetricInfo {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  const char* labels;  // names with ", " between them

  prometheus::MetricFamily Family() const { return {name, help, type, {}}; }
};

/// All metrics that a server may have: those of CoreMetrics, in its order.
/// docs/reference/metrics.md is made from them.
std::vector<MetricInfo> MetricInfos();

/// The core's statistics as Prometheus metrics: Triton's names (nv_inference_*) and ours
/// (lagoon_*).
class CoreMetrics final : public prometheus::Collectable {
 public:
  /// Both are borrowed. `spans`: null: no spans are sent.
  explicit CoreMetrics(Inference& core, const SpanExporter* spans = nullptr)
      : core_(core), spans_(spans) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Inference& core_;
  const SpanExporter* spans_;
};

/// The operator's port: GET /metrics, and requests that change the server.
class MetricsHandler final : public HttpHandler {
 public:
  /// All are borrowed.
  MetricsHandler(Inference& core, const AdminHandlers& handlers, const SpanExporter* spans)
      : metrics_(core, spans), handlers_(handlers) {}

  std::size_t MaxBodyBytes(boost::beast::http::verb method, std::string_view target) const override;
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  CoreMetrics metrics_;
  const AdminHandlers handlers_;
};

}  // namespace lagoon
