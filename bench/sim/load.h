#pragma once

// Jobs that come at random to a simulated device, as in Paella 7.

#include <map>
#include <string>
#include <vector>

#include "bench/load_run.h"
#include "bench/sim/sim_kernels.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {

/// A device and the models that run on it, each with its share of the jobs.
struct LoadMix {
  GpuModel gpu;
  std::vector<SimModel> models;
  std::vector<double> shares;  // by model; their sum is 1
  std::size_t instances = 64;  // jobs of a model that run at once; others wait

  /// `models`: names from the kernel lists of `gpu`, each with its share. Fails with kNotFound for
  /// a name that is not in the lists.
  static Result<LoadMix> Open(const std::string& gpu,
                              const std::vector<std::pair<std::string, double>>& models);
};

struct LoadResult {
  // Jobs a second: as they arrived; as they ended, until the end of the last one.
  double offered = 0, per_second = 0;
  std::vector<double> latencies_ms;  // of all jobs
  std::vector<std::vector<double>> by_model;
};

/// Runs all jobs of `shape`, which arrive at `per_second` in the mean.
Result<LoadResult> RunLoad(const LoadMix& mix, const LoadShape& shape, double per_second,
                           Scheduler scheduler);

struct SimRandomLoadOptions : LoadRunOptions {
  GpuModel gpu;
  SimKernels kernels;
  std::size_t instances = 64;  // jobs of a model that run at once; others wait
  SimWatch watch;              // of each system's first window at the first load
};

/// RunRandomLoad() on a simulated device, in virtual time. Equal options give equal metrics.
/// Differences: `instances`, and a tail without an interval. Fails as FindKernels() does.
Status RunRandomLoadOnSim(const SimRandomLoadOptions& options, Report& report);

}  // namespace lagoon::bench
