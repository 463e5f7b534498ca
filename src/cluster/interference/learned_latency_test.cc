#include "cluster/interference/learned_latency.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

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
    EXPECT_TRUE(learned.Observe({rows, share, Ms(rows, share)}));
  }
  ASSERT_TRUE(learned.learned());
  ExpectMs(*learned.Model(32), 0.01);
}

TEST(LearnedLatency, IsWhatIsExpectedUntilFiveBatchesWereMeasured) {
  LearnedLatency learned;
  learned.Expect(2);
  for (int i = 0; i < 4; ++i) learned.Observe({4, 1, 3});
  EXPECT_FALSE(learned.learned());
  EXPECT_NEAR(learned.Model(8)->AloneMs(4, 0.5), 16, 1e-6);
  learned.Observe({4, 1, 3});
  EXPECT_NEAR(learned.Model(8)->AloneMs(4, 1), 3, 0.03);
}

// Measured at one size and share only: the other times keep their proportions.
TEST(LearnedLatency, WhereNothingWasMeasuredTimesGoWithRowsOverShare) {
  LearnedLatency learned;
  learned.Expect(7);
  for (int i = 0; i < 20; ++i) learned.Observe({4, 0.5, 16});
  const auto model = learned.Model(32);
  EXPECT_NEAR(model->AloneMs(4, 0.5), 16, 0.2);
  EXPECT_NEAR(model->AloneMs(16, 0.5), 64, 2);
  EXPECT_NEAR(model->AloneMs(4, 0.25), 32, 1);
}

TEST(LearnedLatency, NoCoefficientIsNegative) {
  LearnedLatency learned;
  // More rows were faster.
  for (int i = 0; i < 5; ++i) {
    learned.Observe({1, 1, 10});
    learned.Observe({8, 1, 5});
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
      learned.Observe({rows, share, factor * Ms(rows, share) * random.Uniform(0.99, 1.01)});
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

// Half of the batches run alone, the others beside loads up to 2.
TEST(LearnedLatency, TellsTheCostOfCompanyFromTheTimeAlone) {
  LearnedLatency learned;
  Random random(4);
  for (int i = 0; i < 500; ++i) {
    const double rows = 1 + random.Uniform(0, 7), share = random.Uniform(0.2, 1);
    const double load = i % 2 == 0 ? 0 : random.Uniform(0.1, 2);
    const double slowdown = load > 0 ? 1.05 + 0.3 * load : 1;
    learned.Observe({rows, share, slowdown * Ms(rows, share), load});
  }
  const auto model = learned.Model(8);
  EXPECT_NEAR(model->Slowdown({.cache = 0.5}, true), 1.20, 0.03);
  EXPECT_NEAR(model->Slowdown({.cache = 2}, true), 1.65, 0.03);
  EXPECT_EQ(model->Slowdown({}, false), 1);
  EXPECT_NEAR(model->AloneMs(4, 0.5), Ms(4, 0.5), 0.03 * Ms(4, 0.5));
  EXPECT_NEAR(learned.ExpectedMs({4, 0.5, 0, 2}), 1.65 * Ms(4, 0.5), 0.05 * Ms(4, 0.5));
}

TEST(LearnedLatency, AHundredBusyNeighboursCountAsSixtyFour) {
  LearnedLatency learned, at_most;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(learned.Observe({4, 1, i % 2 == 0 ? 10.0 : 20.0, i % 2 * 100.0}));
    EXPECT_TRUE(at_most.Observe({4, 1, i % 2 == 0 ? 10.0 : 20.0, i % 2 * 64.0}));
  }
  EXPECT_GT(learned.Model(8)->Slowdown({.cache = 64}, true), 1.5);
  EXPECT_EQ(learned.Model(8)->Slowdown({.cache = 64}, true),
            at_most.Model(8)->Slowdown({.cache = 64}, true));
}

TEST(LearnedLatency, WithoutCompanySoFarItIsExpectedToCostThreePercent) {
  LearnedLatency learned;
  for (int i = 0; i < 100; ++i) learned.Observe({4, 1, 10});
  EXPECT_NEAR(learned.Model(8)->Slowdown({.cache = 1}, true), 1.03, 1e-9);
}

// Batches that were faster the more ran beside them: noise, of which the mean stays.
TEST(LearnedLatency, CompanyNeverHelps) {
  LearnedLatency learned;
  for (int i = 0; i < 200; ++i) {
    learned.Observe({4, 1, 10});
    learned.Observe({4, 1, 12, 0.5});
    learned.Observe({4, 1, 11, 1});
  }
  const auto model = learned.Model(8);
  EXPECT_NEAR(model->Slowdown({.cache = 0.5}, true), model->Slowdown({.cache = 1}, true), 1e-9);
  EXPECT_NEAR(model->Slowdown({.cache = 1}, true), 1.15, 0.03);
}

TEST(LearnedLatency, OneReadingOutOfReasonDoesNotDecide) {
  LearnedLatency learned;
  for (int i = 0; i < 63; ++i) learned.Observe({4, 1, i % 2 == 0 ? 10.0 : 11.0, i % 2 * 1.0});
  learned.Observe({4, 1, 5000, 1});  // the machine stood still
  EXPECT_LT(learned.Model(8)->Slowdown({.cache = 1}, true), 1.4);
}

// The machine is a fifth slower than when it was measured.
TEST(LearnedLatency, AStoredSurfaceIsScaledToWhatBatchesTake) {
  const auto stored = std::make_shared<const Surface>(
      Surface::FromPoints({.rows = {1, 8}, .shares = {0.25, 1}, .latency_ms = {{30, 10}, {90, 40}}})
          .value());
  LearnedLatency learned;
  learned.Expect(1);
  EXPECT_FALSE(learned.learned());
  learned.Measured(stored);
  EXPECT_TRUE(learned.learned());
  const auto before = learned.Model(8);
  EXPECT_NEAR(before->AloneMs(8, 0.25), 90, 1e-6);
  EXPECT_NEAR(learned.ExpectedMs({1, 1}), 10, 1e-6);
  for (int i = 0; i < 300; ++i) learned.Observe({1, 1, 12});
  const auto after = learned.Model(8);
  EXPECT_NE(after, before);
  EXPECT_NEAR(after->AloneMs(8, 0.25), 108, 1.5) << "never measured, and scaled with the rest";
  learned.Measured(stored);
  EXPECT_EQ(learned.Model(8), after);
  learned.Measured(nullptr);
  EXPECT_NEAR(learned.Model(8)->AloneMs(1, 1), 12, 0.1);
}

TEST(LearnedLatency, AStoredSurfaceThatIsFarOffCountsNoMore) {
  const auto stored = std::make_shared<const Surface>(
      Surface::FromPoints({.rows = {1}, .shares = {1}, .latency_ms = {{1e6}}}).value());
  LearnedLatency learned;
  learned.Measured(stored);
  for (int i = 0; i < 8; ++i) learned.Observe({1, 1, 10});
  EXPECT_NEAR(learned.Model(8)->AloneMs(1, 1), 10, 0.1);
  learned.Measured(stored);  // a fleet passes the same surface each second
  EXPECT_NEAR(learned.Model(8)->AloneMs(1, 1), 10, 0.1);
  const auto other = std::make_shared<const Surface>(
      Surface::FromPoints({.rows = {1}, .shares = {1}, .latency_ms = {{12}}}).value());
  learned.Measured(other);
  EXPECT_NEAR(learned.Model(8)->AloneMs(1, 1), 12, 0.1);
}

TEST(LearnedLatency, ALoadIsThePartOfWhatTheModelCanServe) {
  LearnedLatency learned;
  EXPECT_EQ(learned.LoadAt(100), 0) << "not known yet";
  learned.CanServe(200);
  learned.CanServe(50);  // on a smaller share
  EXPECT_EQ(learned.LoadAt(100), 0.5);
  EXPECT_EQ(learned.LoadAt(1000), 1);
  for (int i = 0; i < 300; ++i) learned.Observe({1, 1, 10});
  EXPECT_NEAR(learned.Model(1)->LoadOf(1, 1).cache, 0.5, 0.01) << "100 a second, of 200";
}

TEST(LearnedLatency, LearnsNothingFromWhatIsNoTime) {
  LearnedLatency learned;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {kNan, kInfinity, -kInfinity, 0.0, -1.0, 1e300}) {
    EXPECT_FALSE(learned.Observe({wrong, 1, 1})) << wrong;
    EXPECT_FALSE(learned.Observe({1, wrong, 1})) << wrong;
    EXPECT_FALSE(learned.Observe({1, 1, wrong})) << wrong;
    if (wrong != 0.0) {
      EXPECT_FALSE(learned.Observe({1, 1, 1, wrong})) << wrong;
    }
    learned.Expect(wrong == 1e300 ? kNan : wrong);
    learned.CanServe(wrong);
    EXPECT_EQ(learned.LoadAt(5), 0) << wrong;
  }
  EXPECT_FALSE(learned.Observe({1, 1.5, 1}));
  EXPECT_FALSE(learned.learned());
  EXPECT_NEAR(learned.Model(4)->AloneMs(1, 1), 1, 1e-6);
}

}  // namespace
}  // namespace lagoon
