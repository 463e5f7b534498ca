#include "cluster/interference/learned_latency.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace lagoon {
namespace {

// 1 + 0.5 rows + 2 / share + 0.1 rows / share
double Ms(double rows, double share) { return 1 + 0.5 * rows + (2 + 0.1 * rows) / share; }

void ExpectMs(const LatencyModel& model, double part) {
  for (const std::int64_t rows : {1, 3, 8, 32}) {
    for (const double share : {0.05, 0.25, 0.6, 1.0}) {
      const double ms = Ms(static_cast<double>(rows), share);
      EXPECT_NEAR(model.AloneMs(rows, share), ms, part * ms) << rows << " rows on " << share;
    }
  }
}

TEST(LearnedLatency, FindsTheFourCoefficientsFromSixTimes) {
  LearnedLatency learned;
  learned.Expect(40);  // far off
  for (const auto& [rows, share] :
       {std::pair<double, double>{1, 1}, {8, 1}, {1, 0.25}, {8, 0.25}, {32, 0.5}, {4, 0.1}}) {
    EXPECT_TRUE(learned.Observe(rows, share, Ms(rows, share)));
  }
  ASSERT_TRUE(learned.learned());
  ExpectMs(*learned.Model(32), 0.01);
}

TEST(LearnedLatency, IsWhatIsExpectedUntilFiveBatchesWereMeasured) {
  LearnedLatency learned;
  learned.Expect(2);
  for (int i = 0; i < 4; ++i) learned.Observe(4, 1, 3);
  EXPECT_FALSE(learned.learned());
  EXPECT_NEAR(learned.Model(8)->AloneMs(4, 0.5), 16, 1e-6);
  learned.Observe(4, 1, 3);
  EXPECT_NEAR(learned.Model(8)->AloneMs(4, 1), 3, 0.03);
}

// Measured at one size and share only: the other times keep their proportions.
TEST(LearnedLatency, WhereNothingWasMeasuredTimesGoWithRowsOverShare) {
  LearnedLatency learned;
  learned.Expect(7);
  for (int i = 0; i < 20; ++i) learned.Observe(4, 0.5, 16);
  const auto model = learned.Model(32);
  EXPECT_NEAR(model->AloneMs(4, 0.5), 16, 0.2);
  EXPECT_NEAR(model->AloneMs(16, 0.5), 64, 2);
  EXPECT_NEAR(model->AloneMs(4, 0.25), 32, 1);
}

TEST(LearnedLatency, NoCoefficientIsNegative) {
  LearnedLatency learned;
  // More rows were faster.
  for (int i = 0; i < 5; ++i) {
    learned.Observe(1, 1, 10);
    learned.Observe(8, 1, 5);
  }
  const auto model = learned.Model(8);
  EXPECT_LE(model->AloneMs(1, 1), model->AloneMs(8, 1) * 1.000001);
  EXPECT_GT(model->AloneMs(1, 1), 4);
  EXPECT_LT(model->AloneMs(8, 1), 11);
}

TEST(LearnedLatency, OneObjectForTimesThatAreNearlyTheSame) {
  LearnedLatency learned;
  Random random(3);
  const auto observe = [&](double factor, int times) {
    for (int i = 0; i < times; ++i) {
      const double rows = 1 + random.Uniform(0, 8), share = random.Uniform(0.1, 1);
      learned.Observe(rows, share, factor * Ms(rows, share) * random.Uniform(0.99, 1.01));
    }
  };
  observe(1, 1000);
  const auto before = learned.Model(8);
  observe(1, 1000);
  EXPECT_EQ(learned.Model(8), before);
  EXPECT_NE(learned.Model(16), before);
  observe(1.2, 2000);  // a neighbour has come
  const auto after = learned.Model(16);
  EXPECT_NE(after->id(), before->id());
  EXPECT_NEAR(after->AloneMs(4, 0.5), 1.2 * Ms(4, 0.5), 0.02 * Ms(4, 0.5));
}

TEST(LearnedLatency, LearnsNothingFromWhatIsNoTime) {
  LearnedLatency learned;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {kNan, kInfinity, -kInfinity, 0.0, -1.0, 1e300}) {
    EXPECT_FALSE(learned.Observe(wrong, 1, 1)) << wrong;
    EXPECT_FALSE(learned.Observe(1, wrong, 1)) << wrong;
    EXPECT_FALSE(learned.Observe(1, 1, wrong)) << wrong;
    learned.Expect(wrong == 1e300 ? kNan : wrong);
  }
  EXPECT_FALSE(learned.Observe(1, 1.5, 1));
  EXPECT_FALSE(learned.learned());
  EXPECT_NEAR(learned.Model(4)->AloneMs(1, 1), 1, 1e-6);
}

}  // namespace
}  // namespace lagoon
