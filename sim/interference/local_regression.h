#pragma once

#include <cstdint>
#include <span>

namespace lagoon {

struct TimedPoint {
  std::int64_t rows = 1;
  double share = 1;
  double latency_ms = 0;
};

/// Locally weighted regression (InSS 4.1 names the method, not its details): the value at `rows`
/// and `share` of the function w0 + w1 rows + w2 / share + w3 rows / share that fits the 8 nearest
/// points best. Near is measured in the logarithms of rows and share, weights are tricube, and a
/// ridge of 1e-6 keeps the weights finite if points lie on a line. Relative errors count, so that
/// short times are as exact as long ones. At least 1e-6. `points`: at least one.
double LocalRegression(std::span<const TimedPoint> points, std::int64_t rows, double share);

}  // namespace lagoon
