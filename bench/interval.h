#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace lagoon::bench {

/// A median with the bounds that hold it with 95 % confidence.
struct Interval {
  double median = 0;
  double low = 0;
  double high = 0;
  std::size_t pairs = 0;  // window pairs that the median is of
};

/// Fewer pairs decide nothing: the smallest and the largest of n values hold the median between
/// them with a probability of 1 - 2^(1-n), which reaches 95 % at 6.
inline constexpr std::size_t kLeastPairs = 6;

/// The middle value, or the mean of the two middle values. Not empty.
double MiddleValue(std::vector<double> values);

/// The median of `values` with a percentile bootstrap (Efron 1979): medians of resamples with
/// replacement, cut at 2.5 and 97.5 %. NaN values are left out; without any value `pairs` is 0.
/// Equal seeds give equal intervals.
Interval MedianInterval(std::span<const double> values, std::uint32_t seed);

/// The same for a figure that combines the medians of several groups, as a geometric mean over
/// models: every group is resampled by itself. `pairs` is that of the smallest group.
Interval CombinedInterval(const std::vector<std::vector<double>>& groups, std::uint32_t seed,
                          const std::function<double(std::span<const double>)>& combine);

enum class Bound { kAtMost, kAtLeast };
enum class Outcome { kMet, kMissed, kUndecided };

/// Met: the whole interval meets the target. Missed: no part of the interval does. Undecided: the
/// target lies inside the interval, or there are fewer than kLeastPairs pairs.
Outcome Judge(const Interval& interval, Bound bound, double target);
std::string_view Name(Outcome outcome);
std::string_view Name(Bound bound);

}  // namespace lagoon::bench
