#include "cluster/monotone.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace lagoon {

std::vector<double> Isotonic(std::span<const double> values) {
  struct Pool {
    double mean;
    std::size_t count;
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& pool = pools.back();
      const auto count = static_cast<double>(pool.count + last.count);
      pool.mean += (last.mean - pool.mean) * static_cast<double>(last.count) / count;
      pool.count += last.count;
    }
  }
  std::vector<double> smooth;
  smooth.reserve(values.size());
  for (const Pool& pool : pools) smooth.insert(smooth.end(), pool.count, pool.mean);
  return smooth;
}

namespace {

// A slope at each point: of the parabola through the point and its neighbours, at most three times
// the slope of either piece. That bound keeps a piece monotone (Fritsch and Carlson, section 4).
std::vector<double> Slopes(std::span<const double> x, std::span<const double> y) {
  const std::size_t points = x.size();
  std::vector<double> slopes(points, 0);
  if (points == 1) return slopes;
  std::vector<double> secants;
  for (std::size_t i = 0; i + 1 < points; ++i) {
    secants.push_back((y[i + 1] - y[i]) / (x[i + 1] - x[i]));
  }
  slopes.front() = secants.front();
  slopes.back() = secants.back();
  for (std::size_t i = 1; i + 1 < points; ++i) {
    const double before = x[i] - x[i - 1], after = x[i + 1] - x[i];
    const double parabola = (after * secants[i - 1] + before * secants[i]) / (before + after);
    slopes[i] = std::min(parabola, 3 * std::min(secants[i - 1], secants[i]));
  }
  return slopes;
}

}  // namespace

MonotoneCurve::MonotoneCurve(std::vector<double> x, std::vector<double> y)
    : x_(std::move(x)), y_(std::move(y)) {
  LAGOON_CHECK(!x_.empty() && x_.size() == y_.size());
  LAGOON_CHECK(std::ranges::adjacent_find(x_, std::greater_equal<>()) == x_.end());
  LAGOON_CHECK(std::ranges::is_sorted(y_));
  slopes_ = Slopes(x_, y_);
}

double MonotoneCurve::At(double x) const {
  LAGOON_CHECK(!std::isnan(x));
  if (x <= x_.front()) return y_.front();
  if (x >= x_.back()) return y_.back();
  const auto i = static_cast<std::size_t>(std::ranges::upper_bound(x_, x) - x_.begin()) - 1;
  const double width = x_[i + 1] - x_[i];
  const double t = (x - x_[i]) / width;
  const double rise = t * t * (3 - 2 * t);
  const double bend = t * (1 - t) * width * ((1 - t) * slopes_[i] - t * slopes_[i + 1]);
  const double value = y_[i] + rise * (y_[i + 1] - y_[i]) + bend;
  return std::clamp(value, y_[i], y_[i + 1]);  // against rounding
}

}  // namespace lagoon
