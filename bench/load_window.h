#pragma once

// Jobs that come at random, as in Paella 7, and values over the load.

#include <vector>

#include "bench/disb_run.h"

namespace lagoon::bench {

/// The gaps between jobs.
struct LoadShape {
  double sigma = 0;  // lognormal gaps with this sigma; 0: exponential gaps
  int jobs = 0;
  unsigned seed = 1;
};

/// When the jobs of `shape` come, `per_second` in the mean: a client for each model, with its part
/// of the jobs (`shares`, whose sum is 1). Equal shapes give the same gaps at every rate, only
/// scaled so that their mean is exact. The window ends with the last job.
DisbWindow MakeLoadWindow(const std::vector<double>& shares, const LoadShape& shape,
                          double per_second);

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
