#pragma once

// What networks decide on fixed views, as text: a test compares the weights that ship with the text
// that was written when they were trained.

#include <cstdint>
#include <string>

#include "cluster/learned/learned_placer.h"

namespace lagoon {

/// The decision on the view that `seed` makes, as a line: the seed, then model:gpu:granules:rows
/// for each replica.
std::string DecisionLine(const PlacementNetworks& networks, bool interference, std::uint32_t seed);

/// `count` lines of decisions, of seeds from 1 on. Left out are seeds on which weights that differ
/// by about 1e-5 decide otherwise: the last bits of a product differ between machines.
std::string StableDecisions(const PlacementNetworks& networks, bool interference, int count);

}  // namespace lagoon
