#pragma once

// The placers of a fleet by name.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/placement/placer.h"

namespace lagoon {

/// The names that MakeFleetPlacer() takes: those of fleet_placers.h, then those of the registry
/// (Placers() in cluster/placement/registry.h).
std::vector<std::string> FleetPlacers();
/// One of them. kNotFound: unknown, with the list.
Result<std::unique_ptr<Placer>> MakeFleetPlacer(std::string_view name);

}  // namespace lagoon
