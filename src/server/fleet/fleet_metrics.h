#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics_handler.h"
#include "serving/core/fleet_control.h"

namespace lagoon {

/// The metrics lagoon_fleet_*, as FleetMetrics() has them.
std::vector<MetricInfo> FleetMetricInfos();

/// The metrics lagoon_fleet_*: per device, per replica, and of the fleet.
std::vector<prometheus::MetricFamily> FleetMetrics(const FleetReport& report);

}  // namespace lagoon
