#pragma once

// Jobs that come at random to a simulated device, as in Paella 7.

#include <map>
#include <string>
#include <vector>

#include "bench/sim/sim_stage.h"

namespace lagoon::bench {

/// The gaps between jobs.
struct LoadShape {
  double sigma = 0;  // lognormal gaps with this sigma; 0: exponential gaps
  int jobs = 0;
  unsigned seed = 1;
};

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

/// When the jobs of `shape` come: a client for each of `shares`, one load. Equal shapes give the same
/// gaps at every rate, only scaled so that their mean is exact. The window ends with the last one.
DisbWindow MakeLoadWindow(const std::vector<double>& shares, const LoadShape& shape,
                          double per_second);

/// Runs all jobs of `shape`, which arrive at `per_second` in the mean.
Result<LoadResult> RunLoad(const LoadMix& mix, const LoadShape& shape, double per_second,
                           Scheduler scheduler);

/// One point of a curve: a load and the value measured there. Curves are in order of growing load.
struct LoadPoint {
  double load = 0, value = 0;
};
/// The load at which the value first exceeds `limit`, interpolated between the points on a
/// logarithmic scale. The last load if the value never exceeds `limit`, the first load if it does
/// so from the start.
double LoadAt(const std::vector<LoadPoint>& points, double limit);
/// The value at `load`, interpolated in the same way. Outside of the points: the value of the
/// nearest point.
double ValueAt(const std::vector<LoadPoint>& points, double load);

}  // namespace lagoon::bench
