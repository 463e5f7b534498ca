#include "bench/fleet/arrivals.h"

#include <numeric>
#include <utility>

#include "base/random.h"
#include "sim/cluster/draws.h"

namespace lagoon::bench {
namespace {

/// Models by rank, in a drawn order.
std::vector<std::size_t> DrawOrder(std::size_t models, Random& random) {
  std::vector<std::size_t> order(models);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = models; i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(static_cast<std::uint32_t>(i))]);
  }
  return order;
}

/// A rank with the probability of Zipf's law.
std::size_t DrawRank(std::size_t models, Random& random) {
  double sum = 0;
  for (std::size_t rank = 0; rank < models; ++rank) sum += 1.0 / static_cast<double>(rank + 1);
  double left = random.Uniform() * sum;
  for (std::size_t rank = 0; rank < models; ++rank) {
    left -= 1.0 / static_cast<double>(rank + 1);
    if (left < 0) return rank;
  }
  return models - 1;
}

}  // namespace

std::vector<Arrival> DrawArrivals(const ArrivalOptions& options) {
  Random random(options.seed);
  std::vector<Arrival> arrivals;
  for (int phase = 0; phase < options.phases; ++phase) {
    const std::vector<std::size_t> order = DrawOrder(options.models, random);
    double seconds = 0;
    while (true) {
      seconds += DrawExponential(random) / options.rate_per_s;
      const Nanoseconds within(static_cast<std::int64_t>(seconds * 1e9));
      if (within >= options.phase) break;
      arrivals.push_back({phase * options.phase + within, order[DrawRank(options.models, random)]});
    }
  }
  return arrivals;
}

}  // namespace lagoon::bench
