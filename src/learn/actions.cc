#include "learn/actions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace lagoon::learn {

int BestAction(std::span<const float> logits, ActionMask mask) {
  int best = -1;
  for (std::size_t a = 0; a < logits.size(); ++a) {
    if (!IsSafe(mask, static_cast<Eigen::Index>(a))) continue;
    if (best < 0 || logits[a] > logits[static_cast<std::size_t>(best)]) best = static_cast<int>(a);
  }
  LAGOON_CHECK(best >= 0);
  return best;
}

Matrix Squash(const Matrix& raw, const Matrix& present) {
  const Eigen::Index slots = present.cols(), levels = raw.cols() / slots - 1;
  Matrix action = Matrix::Zero(raw.rows(), raw.cols());
  for (Eigen::Index row = 0; row < raw.rows(); ++row) {
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    for (Eigen::Index i = 0; i < slots; ++i) {
      if (present(row, i) != 0) most = std::max(most, raw(row, i));
    }
    for (Eigen::Index i = 0; i < slots; ++i) {
      if (present(row, i) == 0) continue;
      action(row, i) = std::exp(raw(row, i) - most);
      sum += action(row, i);
      for (Eigen::Index j = slots + i * levels; j < slots + (i + 1) * levels; ++j) {
        action(row, j) = 1 / (1 + std::exp(-raw(row, j)));
      }
    }
    if (sum > 0) action.row(row).head(slots) /= sum;
  }
  return action;
}

}  // namespace lagoon::learn
