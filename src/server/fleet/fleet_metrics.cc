#include "server/fleet/fleet_metrics.h"

#include <string>
#include <utility>

namespace lagoon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr MetricInfo kReady{"lagoon_fleet_device_ready",
                            "1: the device serves; 0: it is lost or draining", MetricType::Gauge,
                            "device"};

struct ReplicaRow {
  MetricInfo info;
  double (*value)(const FleetReplicaReport&);
};

constexpr ReplicaRow kReplicaRows[] = {
    {{"lagoon_fleet_replica_requests_total", "Requests that the replica was given",
      MetricType::Counter, "model, device"},
     [](const FleetReplicaReport& replica) { return static_cast<double>(replica.requests); }},
    {{"lagoon_fleet_replica_in_flight", "Requests of the replica that are not answered yet",
      MetricType::Gauge, "model, device"},
     [](const FleetReplicaReport& replica) { return static_cast<double>(replica.in_flight); }},
    {{"lagoon_fleet_replica_fraction", "Part of the model's requests that the replica gets",
      MetricType::Gauge, "model, device"},
     [](const FleetReplicaReport& replica) { return replica.fraction; }},
};

struct CountRow {
  MetricInfo info;
  std::uint64_t FleetReport::*count;
};

constexpr CountRow kCountRows[] = {
    {{"lagoon_fleet_decisions_total", "Decisions of the placer", MetricType::Counter, ""},
     &FleetReport::decisions},
    {{"lagoon_fleet_loads_total", "Replicas that were loaded", MetricType::Counter, ""},
     &FleetReport::loads},
    {{"lagoon_fleet_unloads_total", "Replicas that were unloaded", MetricType::Counter, ""},
     &FleetReport::unloads},
    {{"lagoon_fleet_retries_total", "Requests that were sent to a second member",
      MetricType::Counter, ""},
     &FleetReport::retries},
    {{"lagoon_fleet_failed_loads_total", "Replicas that could not be loaded", MetricType::Counter,
      ""},
     &FleetReport::failed_loads},
};

ClientMetric Value(MetricType type, double value, std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
  metric.label = std::move(labels);
  return metric;
}

}  // namespace

std::vector<MetricInfo> FleetMetricInfos() {
  std::vector<MetricInfo> infos = {kReady};
  for (const ReplicaRow& row : kReplicaRows) infos.push_back(row.info);
  for (const CountRow& row : kCountRows) infos.push_back(row.info);
  return infos;
}

std::vector<MetricFamily> FleetMetrics(const FleetReport& report) {
  std::vector<MetricFamily> families = {kReady.Family()};
  for (const FleetDeviceReport& device : report.devices) {
    families.back().metric.push_back(
        Value(kReady.type, device.ready ? 1 : 0, {{"device", device.name}}));
  }
  for (const ReplicaRow& row : kReplicaRows) {
    families.push_back(row.info.Family());
    for (const FleetReplicaReport& replica : report.replicas) {
      families.back().metric.push_back(
          Value(row.info.type, row.value(replica),
                {{"model", replica.model}, {"device", report.devices[replica.device].name}}));
    }
  }
  for (const CountRow& row : kCountRows) {
    families.push_back(row.info.Family());
    families.back().metric.push_back(
        Value(row.info.type, static_cast<double>(report.*row.count), {}));
  }
  return families;
}

}  // namespace lagoon
