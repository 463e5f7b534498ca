#include "cluster/interference/slowdown.h"

#include <Eigen/Dense>

namespace lagoon {

SlowdownTerms FitSlowdownNear(std::span<const SlowdownPoint> points, const SlowdownTerms& prior,
                              double ridge) {
  const Eigen::Vector3d from(prior.constant, prior.cache, prior.dram);
  Eigen::Matrix3d left = ridge * Eigen::Matrix3d::Identity();
  Eigen::Vector3d right = Eigen::Vector3d::Zero();
  for (const SlowdownPoint& point : points) {
    const Eigen::Vector3d basis(1, point.load.cache, point.load.dram);
    left += basis * basis.transpose();
    right += basis * (point.slowdown - basis.dot(from));
  }
  const Eigen::Vector3d found = from + left.ldlt().solve(right);
  return {found[0], found[1], found[2]};
}

}  // namespace lagoon
