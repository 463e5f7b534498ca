#include "server/fleet/fleet_metrics.h"

#include <string>
#include <utility>

namespace lagoon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Value(MetricType type, double value, std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
  metric.label = std::move(labels);
  return metric;
}

MetricFamily Single(const char* name, const char* help, std::uint64_t value) {
  const auto number = static_cast<double>(value);
  return {name, help, MetricType::Counter, {Value(MetricType::Counter, number, {})}};
}

}  // namespace

std::vector<MetricFamily> FleetMetrics(const FleetReport& report) {
  MetricFamily ready{"lagoon_fleet_device_ready",
                     "1: the device serves; 0: it is lost or draining",
                     MetricType::Gauge,
                     {}};
  for (const FleetDeviceReport& device : report.devices) {
    ready.metric.push_back(
        Value(MetricType::Gauge, device.ready ? 1 : 0, {{"device", device.name}}));
  }
  MetricFamily requests{"lagoon_fleet_replica_requests_total",
                        "Requests that the replica was given",
                        MetricType::Counter,
                        {}};
  MetricFamily in_flight{"lagoon_fleet_replica_in_flight",
                         "Requests of the replica that are not answered yet",
                         MetricType::Gauge,
                         {}};
  MetricFamily fraction{"lagoon_fleet_replica_fraction",
                        "Part of the model's requests that the replica gets",
                        MetricType::Gauge,
                        {}};
  for (const FleetReplicaReport& replica : report.replicas) {
    const std::vector<ClientMetric::Label> labels = {
        {"model", replica.model}, {"device", report.devices[replica.device].name}};
    requests.metric.push_back(
        Value(MetricType::Counter, static_cast<double>(replica.requests), labels));
    in_flight.metric.push_back(
        Value(MetricType::Gauge, static_cast<double>(replica.in_flight), labels));
    fraction.metric.push_back(Value(MetricType::Gauge, replica.fraction, labels));
  }
  return {std::move(ready),
          std::move(requests),
          std::move(in_flight),
          std::move(fraction),
          Single("lagoon_fleet_decisions_total", "Decisions of the placer", report.decisions),
          Single("lagoon_fleet_loads_total", "Replicas that were loaded", report.loads),
          Single("lagoon_fleet_unloads_total", "Replicas that were unloaded", report.unloads),
          Single("lagoon_fleet_failed_loads_total", "Replicas that could not be loaded",
                 report.failed_loads)};
}

}  // namespace lagoon
