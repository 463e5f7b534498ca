#pragma once

#include <Eigen/Core>

namespace lagoon::learn {

/// Row-major. In batches a row is a sample.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace lagoon::learn
