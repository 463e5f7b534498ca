#include "learn/actions.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace lagoon::learn {
namespace {

Matrix RandomMatrix(Eigen::Index rows, Eigen::Index columns, Random& random) {
  Matrix matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = static_cast<float>(random.Normal());
  }
  return matrix;
}

TEST(BestAction, IsTheFirstOfTheLargestThatAreSafe) {
  const float logits[] = {1, 5, 3, 3};
  EXPECT_EQ(BestAction(logits, 0b1111), 1);
  EXPECT_EQ(BestAction(logits, 0b1101), 2);
  EXPECT_EQ(BestAction(logits, 0b0001), 0);
}

TEST(Squash, SharesOfPresentSlotsAddUpToOne) {
  Random random(1);
  Matrix present(2, 3);
  present << 1, 0, 1, 1, 1, 1;
  const Matrix action = Squash(RandomMatrix(2, 9, random), present);
  for (Eigen::Index row = 0; row < 2; ++row) {
    EXPECT_NEAR(action.row(row).head(3).sum(), 1, 1e-6);
  }
  EXPECT_EQ(action(0, 1), 0);
  EXPECT_EQ(action(0, 5), 0);
  EXPECT_EQ(action(0, 6), 0);
  EXPECT_GT(action(1, 5), 0);
  EXPECT_LT(action(1, 5), 1);
}

}  // namespace
}  // namespace lagoon::learn
