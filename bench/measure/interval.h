#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace lagoon::bench {

/// A median with the bounds of its 95 % confidence interval.
struct Interval {
  double median = 0;
  double low = 0;
  double high = 0;
  std::size_t pairs = 0;  // number of values (window pairs) behind the median
};

/// With fewer pairs no target is decided: the true median lies between the smallest and the largest
/// of n values with a probability of 1 - 2^(1-n), which exceeds 95 % from n = 6 on.
inline constexpr std::size_t kLeastPairs = 6;

/// The median of `values` with a percentile bootstrap (Efron 1979): medians of resamples with
/// replacement, cut at 2.5 and 97.5 %. NaN values are left out; without any value `pairs` is 0.
/// Equal seeds give equal intervals.
Interval MedianInterval(std::span<const double> values, std::uint32_t seed);

/// The same for a number that combines the medians of several groups, for example a geometric mean
/// over models. Every group is resampled by itself. `pairs` is the size of the smallest group.
Interval CombinedInterval(const std::vector<std::vector<double>>& groups, std::uint32_t seed,
                          const std::function<double(std::span<const double>)>& combine);

enum class Bound { kAtMost, kAtLeast };
enum class Verdict { kMet, kMissed, kUndecided };

/// Met: the whole interval meets the target. Missed: no part of the interval does. Undecided: the
/// target lies inside the interval, or there are fewer than kLeastPairs pairs.
Verdict Judge(const Interval& interval, Bound bound, double target);
std::string_view Name(Verdict verdict);
std::string_view Name(Bound bound);

}  // namespace lagoon::bench
