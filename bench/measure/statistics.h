#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
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

/// The middle value; of an even number of samples the mean of the two middle ones. Not empty.
inline double Median(std::vector<double> samples) {
  LAGOON_CHECK(!samples.empty());
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

inline double Mean(const std::vector<double>& samples) {
  LAGOON_CHECK(!samples.empty());
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace lagoon::bench
