#pragma once

// All placers by name: those that a server runs (cluster/placement/registry.h), and those of other
// papers, which are compared with them in simulations.

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/placement/placer.h"
#include "cluster/placement/registry.h"
#include "sim/placement/baseline_rows.h"

namespace lagoon {

/// All placers, in the order of listings and figures.
const std::vector<PlacerInfo>& AllPlacers();

/// kNotFound: unknown, with the list. `options` are for the placers of other papers; those that a
/// server runs forecast instead.
Result<std::unique_ptr<Placer>> MakeAnyPlacer(std::string_view name,
                                              const BaselineOptions& options = {});

}  // namespace lagoon
