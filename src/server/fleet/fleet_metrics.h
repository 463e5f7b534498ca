#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "serving/core/fleet_control.h"

namespace lagoon {

/// The metrics lagoon_fleet_*: per device, and per replica. docs/guide/fleet.md lists them.
std::vector<prometheus::MetricFamily> FleetMetrics(const FleetReport& report);

}  // namespace lagoon
