#pragma once

// Arrivals at a fleet. The rate of each model changes over time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace lagoon::bench {

struct ArrivalOptions {
  std::size_t models = 10;
  double rate_per_s = 10;  // of all models together
  /// In each phase, the models' rates are in proportion to 1, 1/2, 1/3, ... (Zipf), in an order
  /// that is drawn anew.
  int phases = 3;
  Nanoseconds phase{std::chrono::seconds(10)};
  std::uint32_t seed = 1;
};

struct Arrival {
  Nanoseconds at{0};  // since the start
  std::size_t model = 0;
};

/// Poisson arrivals in order of time.
std::vector<Arrival> DrawArrivals(const ArrivalOptions& options);

}  // namespace lagoon::bench
