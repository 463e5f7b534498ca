#include "sim/interference/local_regression.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

namespace lagoon {
namespace {

constexpr std::size_t kNearest = 8;
constexpr double kRidge = 1e-6;

using Basis = Eigen::Vector4d;

Basis BasisAt(std::int64_t rows, double share) {
  const auto b = static_cast<double>(rows);
  return {1, b, 1 / share, b / share};
}

struct Near {
  double distance = 0;
  const TimedPoint* point = nullptr;
};

std::vector<Near> Nearest(std::span<const TimedPoint> points, std::int64_t rows, double share) {
  std::vector<Near> near;
  for (const TimedPoint& point : points) {
    const double by_rows =
        std::log(static_cast<double>(point.rows)) - std::log(static_cast<double>(rows));
    near.push_back({std::hypot(by_rows, std::log(point.share) - std::log(share)), &point});
  }
  std::ranges::stable_sort(near, {}, &Near::distance);
  near.resize(std::min(near.size(), kNearest));
  return near;
}

}  // namespace

double LocalRegression(std::span<const TimedPoint> points, std::int64_t rows, double share) {
  const std::vector<Near> near = Nearest(points, rows, share);
  // Beyond the farthest point, which would else not count at all.
  const double reach = near.back().distance * 1.1 + 1e-9;
  // The columns have the scale of the basis where the value is wanted, so that the ridge means the
  // same for each.
  const Basis scale = BasisAt(rows, share);
  Eigen::Matrix4d left = kRidge * Eigen::Matrix4d::Identity();
  Basis right = Basis::Zero();
  double sum = 0, weights = 0;
  for (const Near& neighbour : near) {
    const double part = neighbour.distance / reach;
    const double cube = 1 - part * part * part;
    const double tricube = cube * cube * cube;
    const double inverse = near.front().point->latency_ms / neighbour.point->latency_ms;
    const double weight = tricube * inverse * inverse;
    sum += tricube * neighbour.point->latency_ms;
    weights += tricube;
    const Basis basis = BasisAt(neighbour.point->rows, neighbour.point->share).cwiseQuotient(scale);
    left += weight * basis * basis.transpose();
    right += weight * neighbour.point->latency_ms * basis;
  }
  // The sum of all columns at the wanted point is the value there.
  const double value = left.ldlt().solve(right).sum();
  if (!std::isfinite(value) || value <= 0) return std::max(1e-6, sum / weights);
  return std::max(1e-6, value);
}

}  // namespace lagoon
