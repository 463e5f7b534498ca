#pragma once

#include "bench/report/report.h"

namespace lagoon::bench {

struct ClusterSpeedOptions {
  int gpus = 64;
  double seconds = 600;  // virtual
  unsigned seed = 1;
};

/// Measures how fast the batch-level simulator (src/cluster/sim) is on one core. Each device has
/// five models with 400 requests a second each, SLAB and dropping, and models interfere. Metrics:
///   cluster_sim_seconds.gpusN    real seconds of the run
///   cluster_sim_tasks_per_s      requests simulated in a real second
///   cluster_sim_tasks, cluster_sim_batches, cluster_sim_events
Status RunClusterSpeed(const ClusterSpeedOptions& options, Report& report);

}  // namespace lagoon::bench
