#include "sim/training/decisions.h"

#include <fmt/format.h>

#include "sim/training/training_views.h"

namespace lagoon {
namespace {

constexpr int kTrials = 4;  // of weights that differ a little

PlacementNetworks Shaken(PlacementNetworks networks, Random& random) {
  for (learn::Mlp* network : {&networks.global, &networks.local}) {
    for (float& parameter : network->parameters()) {
      parameter *= 1 + 1e-5F * static_cast<float>(random.Normal());
    }
  }
  return networks;
}

}  // namespace

std::string DecisionLine(const PlacementNetworks& networks, bool interference, std::uint32_t seed) {
  Random random(seed);
  const TrainingEpisode episode({}, random);
  LearnedPlacer placer("decisions", networks, {.interference = interference});
  std::string line = fmt::format("{}", seed);
  for (const PlacedReplica& replica : placer.Place(episode.view()).replicas) {
    line += fmt::format(" {}:{}:{}:{}", replica.model, replica.gpu, replica.granules, replica.rows);
  }
  return line;
}

std::string StableDecisions(const PlacementNetworks& networks, bool interference, int count) {
  std::string lines;
  for (std::uint32_t seed = 1; count > 0; ++seed) {
    const std::string line = DecisionLine(networks, interference, seed);
    Random random(seed);
    bool stable = true;
    for (int trial = 0; trial < kTrials && stable; ++trial) {
      stable = DecisionLine(Shaken(networks, random), interference, seed) == line;
    }
    if (!stable) continue;
    lines += line + "\n";
    --count;
  }
  return lines;
}

}  // namespace lagoon
