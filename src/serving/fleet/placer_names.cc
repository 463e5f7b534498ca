#include "serving/fleet/placer_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "cluster/placement/registry.h"
#include "serving/fleet/fleet_placers.h"

namespace lagoon {

std::vector<std::string> FleetPlacers() {
  std::vector<std::string> names = {"static", "least-loaded"};
  for (const PlacerInfo& info : Placers()) names.push_back(info.name);
  return names;
}

Result<std::unique_ptr<Placer>> MakeFleetPlacer(std::string_view name) {
  if (name == "static") return std::make_unique<StaticPlacer>();
  if (name == "least-loaded") return std::make_unique<LeastLoadedPlacer>();
  const std::vector<std::string> names = FleetPlacers();
  if (std::ranges::find(names, name) != names.end()) return MakePlacer(name);
  return Fail(ErrorCode::kNotFound, fmt::format("there is no placer {}; there are {}", Quoted(name),
                                                fmt::join(names, ", ")));
}

}  // namespace lagoon
