#include "sim/interference/fit_slowdown.h"

#include <Eigen/Dense>
#include <algorithm>
#include <limits>
#include <vector>

namespace lagoon {
namespace {

// Weights of the distance from what is expected: of a model's coefficients from the common ones
// (as much as a third of a measurement at full load), and of those from the mean.
constexpr double kRidge = 0.3, kCommonRidge = 0.01;

double MeanSlowdown(std::span<const SlowdownPoint> points) {
  double sum = 0;
  for (const SlowdownPoint& point : points) sum += point.slowdown;
  return points.empty() ? 0 : sum / static_cast<double>(points.size());
}

// Two coefficients, by least squares; the shortest solution if there are many.
SlowdownTerms FitPaper(std::span<const SlowdownPoint> points) {
  Eigen::MatrixXd left(points.size(), 2);
  Eigen::VectorXd right(points.size());
  for (Eigen::Index i = 0; i < left.rows(); ++i) {
    const SlowdownPoint& point = points[static_cast<std::size_t>(i)];
    left.row(i) << point.load.cache, point.load.dram;
    right[i] = point.slowdown;
  }
  const Eigen::VectorXd found = left.completeOrthogonalDecomposition().solve(right);
  return {0, found[0], found[1]};
}

// The coefficients of x = cache C + dram D for which x / (1 + x / limit) fits `points` best while
// they stay near those of `prior`. The limit is that of `prior`, from which Gauss-Newton starts.
SlowdownTerms FitSaturating(std::span<const SlowdownPoint> points, const SlowdownTerms& prior,
                            double ridge) {
  constexpr int kSteps = 30;
  const Eigen::Vector2d from(prior.cache, prior.dram);
  Eigen::Vector2d found = from;
  for (int step = 0; step < kSteps; ++step) {
    Eigen::Matrix2d left = ridge * Eigen::Matrix2d::Identity();
    Eigen::Vector2d right = ridge * (from - found);
    for (const SlowdownPoint& point : points) {
      const Eigen::Vector2d load(point.load.cache, point.load.dram);
      const double x = std::max(0.0, load.dot(found));
      const double part = 1 / (1 + x / prior.limit);
      const Eigen::Vector2d gradient = part * part * load;
      left += gradient * gradient.transpose();
      right += gradient * (point.slowdown - x * part);
    }
    found = (found + left.ldlt().solve(right)).cwiseMax(0.0);
  }
  return {0, found[0], found[1], prior.limit};
}

SlowdownTerms FitCommonSaturating(std::span<const SlowdownPoint> all, double limit) {
  return FitSaturating(all, {.limit = limit}, kCommonRidge);
}

// The sum of the squared errors of points that the fit has not seen.
double HeldOutError(std::span<const SlowdownPoint> all, double limit) {
  constexpr std::size_t kGroups = 8;
  double sum = 0;
  for (std::size_t group = 0; group < std::min(kGroups, all.size()); ++group) {
    std::vector<SlowdownPoint> seen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % kGroups != group) seen.push_back(all[i]);
    }
    const SlowdownTerms terms = FitCommonSaturating(seen, limit);
    for (std::size_t i = group; i < all.size(); i += kGroups) {
      const double x = terms.cache * all[i].load.cache + terms.dram * all[i].load.dram;
      const double error = x / (1 + x / limit) - all[i].slowdown;
      sum += error * error;
    }
  }
  return sum;
}

SlowdownTerms FitSaturatingWithLimit(std::span<const SlowdownPoint> all) {
  double best = std::numeric_limits<double>::infinity(), least = best;
  for (const double limit : kSlowdownLimits) {
    const double error = HeldOutError(all, limit);
    if (error > least) continue;
    least = error;
    best = limit;
  }
  return FitCommonSaturating(all, best);
}

}  // namespace

SlowdownTerms FitCommonSlowdown(std::span<const SlowdownPoint> all, InterferenceKind kind) {
  if (kind == InterferenceKind::kConstant) return {MeanSlowdown(all), 0, 0};
  if (kind == InterferenceKind::kSaturating) return FitSaturatingWithLimit(all);
  return FitSlowdownNear(all, {MeanSlowdown(all), 0, 0}, kCommonRidge);
}

SlowdownTerms FitSlowdown(std::span<const SlowdownPoint> points, const SlowdownTerms& common,
                          InterferenceKind kind) {
  switch (kind) {
    case InterferenceKind::kNone:
      return {};
    case InterferenceKind::kConstant:
      return {points.empty() ? common.constant : MeanSlowdown(points), 0, 0};
    case InterferenceKind::kPaper:
      return points.empty() ? common : FitPaper(points);
    case InterferenceKind::kRidge:
      return FitSlowdownNear(points, common, kRidge);
    case InterferenceKind::kSaturating:
      return FitSaturating(points, common, kRidge);
  }
  return {};
}

}  // namespace lagoon
