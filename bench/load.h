#pragma once

// Jobs that come at random to a simulated device, as in Paella 7.

#include <map>
#include <string>
#include <vector>

#include "bench/sim_stage.h"

namespace lagoon::bench {

/// How far apart jobs come: 0: exponential, else lognormal with that sigma.
struct LoadShape {
  double sigma = 0;
  int jobs = 0;
  unsigned seed = 1;
};

/// A device and the models that jobs are of, each with its share of the jobs.
struct LoadMix {
  SimProfile profile;
  std::vector<SimModel> models;
  std::vector<double> shares;  // of each; they add up to 1
  std::size_t instances = 64;  // jobs of a model that run at once; others wait

  /// Models of the profile's table. kNotFound names one that is not there.
  static Result<LoadMix> Open(const std::string& profile,
                              const std::vector<std::pair<std::string, double>>& models);
};

struct LoadResult {
  double offered = 0, per_second = 0;  // jobs: as they came; as they ended, the last one included
  std::vector<double> latencies_ms;    // of all jobs
  std::vector<std::vector<double>> by_model;
};

/// All jobs at `per_second`. The gaps of equal shapes are the same but for their scale, which makes
/// their mean exact.
Result<LoadResult> RunLoad(const LoadMix& mix, const LoadShape& shape, double per_second,
                           Scheduler scheduler);

/// A measure of growing load, and what was seen there.
struct LoadPoint {
  double load = 0, value = 0;
};
/// The load at which the value first grows beyond `limit`, interpolated between the points on a
/// logarithmic scale; the last load if it never does, the first if it does there already.
double LoadAt(const std::vector<LoadPoint>& points, double limit);
/// The value at `load`, interpolated in the same way; the nearest end's beyond the points.
double ValueAt(const std::vector<LoadPoint>& points, double load);

}  // namespace lagoon::bench
