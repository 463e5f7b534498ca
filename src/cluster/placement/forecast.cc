#include "cluster/placement/forecast.h"

#include <algorithm>
#include <cmath>

namespace lagoon {

// The time that the waiting rows need is a diffusion between 0 and the time that a request can
// wait: it drifts by busy - 1 and spreads by busy * row_ms for each ms. What the upper bound turns
// away is lost. See a text on queues with a bounded wait, for instance Browne and Whitt 1995.
double ViolationRate(const ReplicaLoad& load) {
  if (load.single_ms >= load.slo_ms) return 1;
  if (load.rate <= 0) return 0;
  const auto rows = static_cast<double>(load.rows);
  const double row_ms = load.batch_ms / rows;
  const double busy = load.rate * row_ms / 1e3;  // part of the time, if batches are full
  // A request finds a batch that has half of its time left, on average, unless batches are single.
  const double wait = load.slo_ms - load.batch_ms * (1.5 - 0.5 / rows);
  const double bound = std::max(wait, 0.1 * load.slo_ms);
  const double power = 2 * (1 - busy) * bound / (busy * row_ms);
  if (std::abs(power) < 1e-6) return std::min(1.0, row_ms / (2 * bound));
  if (power > 700) return 0;
  return std::clamp((1 - busy) / busy / std::expm1(power), 0.0, 1.0);
}

double LongestBatchMs(const ReplicaLoad& load, double most_violations) {
  const double scale = load.single_ms / load.batch_ms;
  const auto rate_at = [&](double batch_ms) {
    ReplicaLoad tried = load;
    tried.batch_ms = batch_ms;
    tried.single_ms = batch_ms * scale;
    return ViolationRate(tried);
  };
  double least = 0, most = load.slo_ms;
  for (int i = 0; i < 16; ++i) {
    const double middle = (least + most) / 2;
    (rate_at(middle) <= most_violations ? least : most) = middle;
  }
  return least;
}

}  // namespace lagoon
