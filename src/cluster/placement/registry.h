#pragma once

// The placers that a server runs, by name. sim/placement/comparators.h has those of other papers
// too.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/placement/placer.h"

namespace lagoon {

struct PlacerInfo {
  std::string name;
  std::string summary;  // one line
};

/// All of them, in the order of listings.
const std::vector<PlacerInfo>& Placers();

/// kNotFound: unknown, with the list.
Result<std::unique_ptr<Placer>> MakePlacer(std::string_view name);

}  // namespace lagoon
