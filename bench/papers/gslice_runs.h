#pragma once

// What GSLICE's figures share: one simulated V100 and the systems that the paper compares.

#include <span>
#include <string>
#include <vector>

#include "bench/papers/figure.h"
#include "sim/cluster/cluster_sim.h"
#include "sim/cluster/gslice_controller.h"

namespace lagoon::bench {

/// A model in a figure.
struct GsliceModel {
  const char* name;    // in V100Surfaces()
  double knee = 1;     // its first demand, part of the device
  bool light = false;  // small enough that GSLICE runs two of its batches at once (3.3)
};

enum class GsliceSystem : std::uint8_t {
  kMps,      // "Default MPS": one request at a time
  kMpsSlab,  // "MPS + SLAB"
  kGslice,   // shares, SLAB, two places for light models
};
const char* Name(GsliceSystem system);

/// One V100 whose models have an SLO of `slo_ms` for a batch and `clients` clients each. No model
/// interferes with others beyond its share, as GSLICE 2.1.2 measured. Batches have up to 32 rows.
/// Default MPS shares by knees: of the two rules the one that fits VGG-16 beside VGG-19 in Fig. 15.
ClusterSpec GsliceSpec(std::span<const GsliceModel> models, GsliceSystem system, double slo_ms,
                       const FigureOptions& options);
/// What a figure says of `spec`: its SLO, warmup and length, and the granules of the device.
void AddInputs(const ClusterSpec& spec, Figure& figure);
/// Runs it, with the tuner of shares if the system has one.
Result<SimReport> RunGslice(const ClusterSpec& spec, std::span<const GsliceModel> models);

}  // namespace lagoon::bench
