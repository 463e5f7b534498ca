#include "bench/measure/interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

// With more resamples the bounds move by less than a tenth of the interval's width.
constexpr int kResamples = 2000;
constexpr double kTail = 0.025;  // part outside of each bound: 95 % lie between them

// Like std::uniform_int_distribution, but the same with every standard library.
std::size_t Below(std::size_t count, std::mt19937& random) {
  return static_cast<std::size_t>((static_cast<std::uint64_t>(random()) * count) >> 32);
}

std::vector<double> Resample(const std::vector<double>& values, std::mt19937& random) {
  std::vector<double> drawn(values.size());
  for (double& value : drawn) value = values[Below(values.size(), random)];
  return drawn;
}

}  // namespace

Interval CombinedInterval(const std::vector<std::vector<double>>& groups, std::uint32_t seed,
                          const std::function<double(std::span<const double>)>& combine) {
  std::vector<std::vector<double>> known;
  for (const std::vector<double>& group : groups) {
    std::vector<double>& values = known.emplace_back(group);
    std::erase_if(values, [](double value) { return std::isnan(value); });
  }
  Interval interval;
  if (known.empty()) return interval;
  interval.pairs = std::numeric_limits<std::size_t>::max();
  for (const auto& group : known) interval.pairs = std::min(interval.pairs, group.size());
  if (interval.pairs == 0) return interval;

  std::vector<double> medians;
  for (const auto& group : known) medians.push_back(Median(group));
  interval.median = combine(medians);
  std::mt19937 random(seed);
  std::vector<double> figures(kResamples);
  for (double& figure : figures) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      medians[i] = Median(Resample(known[i], random));
    }
    figure = combine(medians);
  }
  std::sort(figures.begin(), figures.end());
  constexpr auto kCut = static_cast<std::size_t>(kTail * kResamples);
  interval.low = figures[kCut];
  interval.high = figures[kResamples - 1 - kCut];
  return interval;
}

Interval MedianInterval(std::span<const double> values, std::uint32_t seed) {
  return CombinedInterval({{values.begin(), values.end()}}, seed,
                          [](std::span<const double> medians) { return medians.front(); });
}

Verdict Judge(const Interval& interval, Bound bound, double target) {
  if (interval.pairs < kLeastPairs) return Verdict::kUndecided;
  const bool at_most = bound == Bound::kAtMost;
  if (at_most ? interval.high <= target : interval.low >= target) return Verdict::kMet;
  if (at_most ? interval.low > target : interval.high < target) return Verdict::kMissed;
  return Verdict::kUndecided;
}

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kMissed:
      return "missed";
    case Verdict::kUndecided:
      return "undecided";
  }
  return "undecided";
}

std::string_view Name(Bound bound) { return bound == Bound::kAtMost ? "at most" : "at least"; }

}  // namespace lagoon::bench
