#pragma once

// The placers by name.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/placement/baseline_rows.h"
#include "cluster/placement/placer.h"

namespace lagoon {

struct PlacerInfo {
  std::string name;
  std::string summary;  // one line
};

/// All placers, in the order of listings.
const std::vector<PlacerInfo>& Placers();

/// kNotFound: unknown, with the list. `busy`: what part of its capacity a placer from another paper
/// asks of a replica, above 0, at most 1; `lagoon` and `inss` forecast instead.
Result<std::unique_ptr<Placer>> MakePlacer(std::string_view name, double busy = kBaselineBusy);

}  // namespace lagoon
