#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <utility>

#include "apps/reference/markdown.h"
#include "apps/reference/pages.h"
#include "server/metrics_handler.h"
#include "server/route.h"
#include "server/unserved.h"
#include "serving/config/config_rules.h"
#include "serving/config/parameters.h"

namespace lagoon {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// "; no warning for NAME" if a value of the enum is accepted.
std::string AcceptedBy(const FieldRule& rule) {
  if (rule.accepted < 0) return "";
  const auto* message = inference::ModelConfig::descriptor();
  const google::protobuf::FieldDescriptor* field = nullptr;
  for (const std::string& name : CLI::detail::split(std::string(rule.path), '.')) {
    field = message->FindFieldByName(name);
    message = field->message_type();
  }
  return "; no warning for " +
         CodeSpan(field->enum_type()->FindValueByNumber(rule.accepted)->name());
}

// Fields with this verdict. Neighbours with the same text share a row.
Rows FieldsWith(FieldVerdict verdict) {
  Rows rows;
  for (const FieldRule& rule : FieldRules()) {
    if (rule.verdict != verdict) continue;
    const std::string text = std::string(rule.text) + AcceptedBy(rule);
    if (!rows.empty() && rows.back()[1] == text) {
      rows.back()[0] += ", " + CodeSpan(rule.path);
    } else {
      rows.push_back({CodeSpan(rule.path), text});
    }
  }
  return rows;
}

std::string PortsOf(const Endpoint& endpoint) {
  if (endpoint.ports == Endpoint::Ports::kOperators) return "operators";
  if (endpoint.ports == Endpoint::Ports::kClients) return "clients";
  if (endpoint.change.empty()) return "both";
  return endpoint.methods == "POST" ? "operators" : "both; POST: operators";
}

std::string GrpcMethods() {
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      "inference.GRPCInferenceService");
  std::vector<std::string> names;
  for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
    names.push_back(CodeSpan(service->method(i)->name()));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view NameOf(prometheus::MetricType type) {
  if (type == prometheus::MetricType::Histogram) return "histogram";
  return type == prometheus::MetricType::Gauge ? "gauge" : "counter";
}

}  // namespace

Page ConfigPage() {
  Rows parameters;
  for (const ConfigParameter& row : ConfigParameters()) {
    parameters.push_back(
        {CodeSpan(row.Word()), row.takes, std::string(row.usual), std::string(row.effect)});
  }
  std::string page =
      PageHead("config.pbtxt",
               "The fields of Triton's `ModelConfig` and the parameters that Lagoon reads. A field "
               "or a value "
               "that is not known is an error, which names the file, the line and the field. "
               "[Serving models](../guide/models.md) explains them.");
  page += "\n## Fields that Lagoon acts on\n" +
          Table({"field", "what it does"}, FieldsWith(FieldVerdict::kServed));
  page += "\n## Parameters\n" +
          Wrapped(
              "Strings under `parameters`. An unknown name that begins with `lagoon.` or `job.` "
              "is an error; names of other backends give a warning.") +
          Table({"parameter", "takes", "default", "what it does"}, parameters);
  page +=
      "\n## Fields without effect\n" +
      Wrapped("The model is served, and the log has a warning: answers are right without them.") +
      Table({"field", "why"}, FieldsWith(FieldVerdict::kIgnored));
  page += "\n## Fields that are refused\n" +
          Wrapped("The model is not loaded: its answers would be wrong without them.") +
          Table({"field", "why"}, FieldsWith(FieldVerdict::kRefused));
  return {"config.md", std::move(page)};
}

Page HttpPage() {
  Rows endpoints;
  for (const Endpoint& endpoint : kEndpoints) {
    if (endpoint.answer.empty()) continue;
    endpoints.push_back({std::string(endpoint.methods), CodeSpan(endpoint.path), PortsOf(endpoint),
                         std::string(endpoint.answer)});
  }
  Rows unserved;
  for (const UnservedRow& row : UnservedExtensions()) {
    unserved.push_back({CodeSpan(row.name), std::string(row.instead)});
  }
  std::string page = PageHead(
      "HTTP and gRPC",
      "The paths of HTTP, and the port that serves each: the clients' (8000) or the operators' "
      "(8002). With `--allow-admin-on-http` the clients' port serves all but metrics and routes. "
      "In "
      "paths below `/v2/models`, `/versions/V` may follow the model's name; without it the highest "
      "version answers. Another method gets 405, another path 404. [Clients](../guide/clients.md) "
      "has bodies, limits and errors.");
  page += Table({"method", "path", "port", "answer"}, endpoints);
  page += "\n## gRPC\n" + Wrapped("`inference.GRPCInferenceService` has " + GrpcMethods() +
                                  "; `grpc.health.v1.Health` is served too.");
  page += "\n## Extensions of Triton that are not served\n" +
          Wrapped("Their gRPC methods are answered `UNIMPLEMENTED`, their paths 501.") +
          Table({"extension", "instead"}, unserved);
  return {"http.md", std::move(page)};
}

Page MetricsPage() {
  Rows rows;
  for (const MetricInfo& info : MetricInfos()) {
    rows.push_back({CodeSpan(info.name), std::string(NameOf(info.type)), info.labels, info.help});
  }
  return {
      "metrics.md",
      PageHead("Metrics",
               "`GET /metrics` on the operators' port answers in the text format of Prometheus. "
               "Counters count since the server started, those of a model since its load. "
               "`lagoon_fleet_` is of a server with "
               "`--fleet`, where `device` is one of its devices.") +
          Table({"name", "type", "labels", "meaning"}, rows)};
}

}  // namespace lagoon
