#include "sim/interference/kinked_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace lagoon {
namespace {

constexpr double kAt[] = {1, 2, 4, 10};  // 1 / share of 100, 50, 25 and 10 %

KinkedCurve Through(const std::function<double(double)>& value) {
  std::vector<double> y;
  for (const double x : kAt) y.push_back(value(x));
  return {{std::begin(kAt), std::end(kAt)}, y};
}

TEST(KinkedCurve, GoesThroughItsPointsAndStaysBetweenThem) {
  const KinkedCurve curve({1, 2, 4}, {3, 3, 7});
  EXPECT_EQ(curve.At(0.5), 3);
  EXPECT_EQ(curve.At(1), 3);
  EXPECT_EQ(curve.At(2), 3);
  EXPECT_EQ(curve.At(4), 7);
  EXPECT_EQ(curve.At(9), 7);
  EXPECT_EQ(KinkedCurve({2}, {5}).At(1), 5);
  EXPECT_EQ(KinkedCurve({2}, {5}).At(3), 5);
}

// The chord is up to 50 % above the kink.
TEST(KinkedCurve, FindsAKneeBetweenTwoPoints) {
  for (const double knee : {1.5, 2.5, 3.0, 3.5}) {
    const auto exact = [&](double x) { return 1 + std::max(0.0, x - knee); };
    const KinkedCurve curve = Through(exact);
    for (double x = 1; x <= 10; x += 0.25) {
      EXPECT_NEAR(curve.At(x), exact(x), 0.13 * exact(x)) << "knee " << knee << ", at " << x;
    }
  }
}

TEST(KinkedCurve, IsStraightAfterTheKnee) {
  const auto exact = [](double x) { return 1 + std::max(0.0, x - 3); };
  const KinkedCurve curve = Through(exact);
  for (const double x : {4.5, 6.0, 9.0}) EXPECT_DOUBLE_EQ(curve.At(x), exact(x));
}

TEST(KinkedCurve, AKneeBeforeTheLastPointIsBetweenTheChordAndAProportion) {
  const KinkedCurve curve = Through([](double x) { return std::max(1.0, x / 6); });
  EXPECT_LT(curve.At(6), 1 + (10.0 / 6 - 1) * 2 / 6);  // the chord
  EXPECT_GE(curve.At(6), 1);
}

TEST(KinkedCurve, AConcaveFunctionIsAboveItsChord) {
  const KinkedCurve curve({1, 2, 3, 4}, {1, 4, 6, 7});
  EXPECT_GT(curve.At(2.5), 5);
  EXPECT_LE(curve.At(2.5), 5.5);
}

TEST(KinkedCurve, DoesNotFall) {
  for (const auto& y : {std::vector<double>{1, 1, 1, 1},
                        {1, 1, 5, 6},
                        {1, 4, 4, 9},
                        {1, 2, 8, 9},
                        {2, 2, 2, 90},
                        {1, 5, 6, 6}}) {
    const KinkedCurve curve({std::begin(kAt), std::end(kAt)}, y);
    double before = 0;
    for (double x = 0.5; x < 11; x += 0.1) {
      EXPECT_GE(curve.At(x), before - 1e-12) << x;
      before = curve.At(x);
    }
  }
}

}  // namespace
}  // namespace lagoon
