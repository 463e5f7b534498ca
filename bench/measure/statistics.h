#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace lagoon::bench {

/// A p99 is reported only from this many samples on.
inline constexpr std::size_t kSamplesForP99 = 1000;
/// The same within one window: with more samples the p99 is not simply the largest one.
inline constexpr std::size_t kSamplesForWindowP99 = 100;

/// The value that `percent` of the samples do not exceed (nearest rank). Not empty.
inline double Percentile(std::vector<double> samples, double percent) {
  LAGOON_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(samples.size()));
  return samples[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

inline double Median(std::vector<double> samples) { return Percentile(std::move(samples), 50); }

inline double Mean(const std::vector<double>& samples) {
  LAGOON_CHECK(!samples.empty());
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace lagoon::bench
