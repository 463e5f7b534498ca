#pragma once

#include <cstddef>
#include <span>

namespace lagoon::bench {

struct Point {
  double x = 0, y = 0;
};

/// How much y grows for each x in the second half of the points, by least squares: what grows at
/// first, until caches and pools are full, does not count. 0 with fewer than four points, or when
/// all x are the same.
inline double SlopeOfSecondHalf(std::span<const Point> points) {
  if (points.size() < 4) return 0;
  const std::span<const Point> half = points.subspan(points.size() / 2);
  const auto count = static_cast<double>(half.size());
  double x = 0, y = 0;
  for (const Point& point : half) {
    x += point.x / count;
    y += point.y / count;
  }
  double squares = 0, products = 0;
  for (const Point& point : half) {
    squares += (point.x - x) * (point.x - x);
    products += (point.x - x) * (point.y - y);
  }
  return squares > 0 ? products / squares : 0;
}

}  // namespace lagoon::bench
