#include "sim/interference/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/interference/local_regression.h"

namespace lagoon {
namespace {

// The time alone of the made-up models: a part for each batch, and a part for each row and share.
double AloneMs(double base, double row, std::int64_t rows, double share) {
  return base + row * static_cast<double>(rows) / share;
}

// The cache's load falls as the memory's rises, so that both can be told apart.
DeviceLoad LoadOf(double rows_per_s) { return {0.75 - rows_per_s / 4e3, rows_per_s / 2e3}; }

MeasuredPoint Alone(const std::string& model, double row, std::int64_t rows, double share,
                    bool with_load = true) {
  MeasuredPoint point{.model = model, .rows = rows, .share = share};
  point.latency_ms = AloneMs(1, row, rows, share);
  if (with_load) point.load = LoadOf(static_cast<double>(rows) / point.latency_ms * 1e3);
  return point;
}

std::vector<MeasuredPoint> AllAlone(bool with_load = true) {
  std::vector<MeasuredPoint> points;
  for (const auto& [model, row] : {std::pair{"slow", 1.0}, {"fast", 0.25}}) {
    for (const std::int64_t rows : {1, 4, 16, 32}) {
      for (const double share : {0.2, 0.4, 0.6, 0.8}) {
        points.push_back(Alone(model, row, rows, share, with_load));
      }
    }
  }
  return points;
}

// 'slow' beside 'fast', slower by constant + cache C + dram D.
MeasuredPoint Beside(SlowdownTerms terms, std::int64_t rows, double share) {
  const MeasuredPoint other = Alone("fast", 0.25, rows, share);
  MeasuredPoint point = Alone("slow", 1, 8, 0.5, false);
  point.latency_ms *=
      1 + terms.constant + terms.cache * other.load->cache + terms.dram * other.load->dram;
  point.neighbours.push_back({"fast", rows, share});
  return point;
}

std::vector<MeasuredPoint> WithCoRuns(SlowdownTerms terms) {
  std::vector<MeasuredPoint> points = AllAlone();
  for (const auto& [rows, share] :
       {std::pair<std::int64_t, double>{1, 0.2}, {16, 0.4}, {32, 0.8}}) {
    points.push_back(Beside(terms, rows, share));
  }
  return points;
}

TEST(LocalRegression, IsExactWhereTheBasisIs) {
  std::vector<TimedPoint> points;
  for (const std::int64_t rows : {1, 4, 16, 32}) {
    for (const double share : {0.2, 0.4, 0.6, 0.8}) {
      points.push_back({rows, share, AloneMs(2, 0.5, rows, share)});
    }
  }
  for (const std::int64_t rows : {1, 8, 24}) {
    for (const double share : {0.1, 0.5, 1.0}) {
      const double exact = AloneMs(2, 0.5, rows, share);
      EXPECT_NEAR(LocalRegression(points, rows, share), exact, 1e-3 * exact);
    }
  }
}

TEST(LocalRegression, OnePointIsEnough) {
  const TimedPoint point{4, 0.5, 12};
  EXPECT_NEAR(LocalRegression({&point, 1}, 4, 0.5), 12, 1e-3);
  EXPECT_GT(LocalRegression({&point, 1}, 1, 1.0), 0);
}

TEST(FitLatencyModels, TimesAloneAreThoseMeasured) {
  const auto models = FitLatencyModels(AllAlone(), InterferenceKind::kRidge);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const LatencyModel& slow = models->find("slow")->second;
  for (const std::int64_t rows : {1, 4, 8, 16, 32}) {
    for (const double share : {0.2, 0.3, 0.5, 0.8, 1.0}) {
      const double exact = AloneMs(1, 1, rows, share);
      EXPECT_NEAR(slow.AloneMs(rows, share), exact, 0.04 * exact) << rows << ", " << share;
    }
  }
}

// Eq. 1: three co-runs are enough for two coefficients if there is no noise.
TEST(FitLatencyModels, PaperFindsItsTwoCoefficients) {
  const auto models = FitLatencyModels(WithCoRuns({0, 0.3, 0.2}), InterferenceKind::kPaper);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const SlowdownTerms terms = models->find("slow")->second.slowdown();
  EXPECT_EQ(terms.constant, 0);
  EXPECT_NEAR(terms.cache, 0.3, 0.06);
  EXPECT_NEAR(terms.dram, 0.2, 0.06);
}

TEST(FitLatencyModels, ConstantIsTheMeanSlowdown) {
  const auto models = FitLatencyModels(WithCoRuns({0.12, 0, 0}), InterferenceKind::kConstant);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  EXPECT_NEAR(models->find("slow")->second.slowdown().constant, 0.12, 0.01);
  // 'fast' has no points with neighbours: the mean of all models.
  EXPECT_NEAR(models->find("fast")->second.slowdown().constant, 0.12, 0.01);
}

TEST(FitLatencyModels, RidgeStaysNearTheConstantAndFollowsTheLoad) {
  const auto models = FitLatencyModels(WithCoRuns({0.05, 0, 0.2}), InterferenceKind::kRidge);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const SlowdownTerms terms = models->find("slow")->second.slowdown();
  EXPECT_GT(terms.dram, terms.cache);
  const auto errors = PredictAll(*models, WithCoRuns({0.05, 0, 0.2}));
  ASSERT_TRUE(errors.has_value());
  for (const PredictionError& error : *errors) EXPECT_LT(std::abs(error.relative), 0.03);
}

TEST(FitLatencyModels, NoneHasNoSlowdown) {
  const auto models = FitLatencyModels(WithCoRuns({0.3, 0, 0}), InterferenceKind::kNone);
  ASSERT_TRUE(models.has_value());
  const auto predicted = Predict(*models, Beside({0.3, 0, 0}, 16, 0.4));
  ASSERT_TRUE(predicted.has_value());
  EXPECT_NEAR(*predicted, AloneMs(1, 1, 8, 0.5), 0.7);
}

TEST(FitLatencyModels, WithoutLoadsTheThroughputStandsForThem) {
  const auto models = FitLatencyModels(AllAlone(false), InterferenceKind::kRidge);
  ASSERT_TRUE(models.has_value());
  const DeviceLoad most = models->find("fast")->second.LoadOf(32, 0.8);
  EXPECT_NEAR(most.cache, 1, 0.01);
  EXPECT_EQ(most.cache, most.dram);
}

TEST(PredictHeldOut, HasNotSeenThePair) {
  // A second neighbour slows down much more. Held out, it is predicted from the first one's.
  std::vector<MeasuredPoint> points = WithCoRuns({0.1, 0, 0});
  for (const std::int64_t rows : {1, 4, 16, 32}) {
    points.push_back(Alone("loud", 0.5, rows, 0.5));
  }
  MeasuredPoint loud = Alone("slow", 1, 8, 0.5, false);
  loud.latency_ms *= 1.5;
  loud.neighbours.push_back({"loud", 8, 0.5});
  points.push_back(loud);
  const auto errors = PredictHeldOut(points, InterferenceKind::kConstant);
  ASSERT_TRUE(errors.has_value()) << errors.error().message;
  ASSERT_EQ(errors->size(), 4u);
  EXPECT_NEAR(errors->back().relative, 1.1 / 1.5 - 1, 0.02);
  // The other three, of one pair, are predicted from the loud one alone.
  EXPECT_NEAR(errors->front().relative, 1.5 / 1.1 - 1, 0.02);
}

// As if a clock stood still: neither rows nor shares nor neighbours change anything.
TEST(FitLatencyModels, EqualTimesGiveAModelWithoutSlopes) {
  std::vector<MeasuredPoint> points = WithCoRuns({0.1, 0.2, 0.3});
  for (MeasuredPoint& point : points) {
    point.latency_ms = 7;
    if (point.load) point.load = DeviceLoad{0.5, 0.5};
  }
  for (const InterferenceKind kind : kInterferenceKinds) {
    const auto models = FitLatencyModels(points, kind);
    ASSERT_TRUE(models.has_value()) << models.error().message;
    for (const std::int64_t rows : {1, 7, 32, 1000}) {
      for (const double share : {0.001, 0.2, 0.3, 0.8, 1.0}) {
        const auto ms = Predict(*models, {.model = "slow",
                                          .rows = rows,
                                          .share = share,
                                          .latency_ms = 7,
                                          .neighbours = {{"fast", 32, 0.5}}});
        ASSERT_TRUE(ms.has_value());
        const bool measured = rows <= 32 && share >= 0.2;
        EXPECT_GE(*ms, 6.9) << Name(kind) << " " << rows << " rows on " << share;
        EXPECT_LE(*ms, measured ? 7.1 : 7 * 1000 * 1000)
            << Name(kind) << " " << rows << " rows on " << share;
      }
    }
  }
}

TEST(FitLatencyModels, NamesTheModelThatCannotBeFitted) {
  std::vector<MeasuredPoint> points = AllAlone();
  points.push_back(Beside({}, 16, 0.4));
  points.back().neighbours[0].model = "ghost";
  const auto ghost = FitLatencyModels(points, InterferenceKind::kRidge);
  ASSERT_FALSE(ghost.has_value());
  EXPECT_NE(ghost.error().message.find("'ghost'"), std::string::npos) << ghost.error().message;

  points = AllAlone();
  points[3].load.reset();
  const auto some = FitLatencyModels(points, InterferenceKind::kRidge);
  ASSERT_FALSE(some.has_value());
  EXPECT_NE(some.error().message.find("15 of its 16"), std::string::npos) << some.error().message;

  const auto models = FitLatencyModels(AllAlone(), InterferenceKind::kNone);
  ASSERT_TRUE(models.has_value());
  const auto unknown = Predict(*models, {.model = "ghost", .latency_ms = 1});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

TEST(FitLatencyModels, CopiesAreFittedApartFromTheTimeOnTheDevice) {
  std::vector<MeasuredPoint> points = WithCoRuns({0.1, 0, 0});
  const auto copies = [](const MeasuredPoint& point) {
    const auto rows = static_cast<double>(point.rows);
    return MeasuredCopies{0.5 + 0.25 * rows, 0.125 * rows};
  };
  for (MeasuredPoint& point : points) {
    const MeasuredCopies of = copies(point);
    if (point.neighbours.empty()) point.copies = of;
    point.latency_ms += of.up_ms + of.down_ms;
  }
  const auto without = FitLatencyModels(WithCoRuns({0.1, 0, 0}), InterferenceKind::kConstant);
  const auto models = FitLatencyModels(points, InterferenceKind::kConstant);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const LatencyModel& slow = models->find("slow")->second;
  EXPECT_NEAR(slow.transfers().up.alpha, 0.25, 1e-9);
  EXPECT_NEAR(slow.transfers().up.beta, 0.5, 1e-9);
  EXPECT_NEAR(slow.transfers().down.alpha, 0.125, 1e-9);
  EXPECT_NEAR(slow.transfers().down.beta, 0, 1e-9);
  const LatencyModel& same = without->find("slow")->second;
  EXPECT_NEAR(slow.alone().LatencyMs(8, 0.5), same.alone().LatencyMs(8, 0.5), 1e-9);
  EXPECT_NEAR(slow.slowdown().constant, same.slowdown().constant, 1e-9);
  EXPECT_EQ(same.transfers().At(8), 0);
}

// A line that falls, or begins below 0, would say that a copy gains time.
TEST(FitLatencyModels, NoisyCopiesNeverGainTime) {
  std::vector<MeasuredPoint> points = AllAlone();
  for (MeasuredPoint& point : points) {
    const auto rows = static_cast<double>(point.rows);
    point.copies = {0.4 - rows / 100, std::max(0.0, rows / 100 - 0.05)};
    point.latency_ms += 1;
  }
  const auto models = FitLatencyModels(points, InterferenceKind::kNone);
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const Transfers& transfers = models->find("slow")->second.transfers();
  EXPECT_EQ(transfers.up.alpha, 0);
  EXPECT_NEAR(transfers.up.beta, 0.4 - 13.25 / 100, 1e-9);
  EXPECT_EQ(transfers.down.beta, 0);
  EXPECT_GT(transfers.down.alpha, 0);
}

TEST(FitLatencyModels, NamesThePointThatIsNoMeasurement) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const MeasuredPoint& bad) {
    std::vector<MeasuredPoint> points = AllAlone();
    points[17] = bad;
    const auto models = FitLatencyModels(points, InterferenceKind::kSaturating);
    return models ? "" : models.error().message;
  };
  MeasuredPoint bad = AllAlone()[17];
  bad.latency_ms = nan;
  EXPECT_EQ(message(bad).find("points[17], of model 'fast': latency_ms is nan"), 0u);
  bad.latency_ms = -2;
  EXPECT_EQ(message(bad).find("points[17], of model 'fast': latency_ms is -2"), 0u);
  bad = AllAlone()[17];
  bad.load->dram = nan;
  EXPECT_EQ(message(bad).find("points[17], of model 'fast': dram is nan"), 0u);
  bad = AllAlone()[17];
  bad.copies = MeasuredCopies{0.1, 0.1};
  EXPECT_NE(message(bad).find("'fast' has copies on 1 of its 16 points"), std::string::npos)
      << message(bad);
}

TEST(OnlineCorrection, FollowsWhatIsMeasuredWithinBounds) {
  OnlineCorrection correction;
  for (int i = 0; i < 100; ++i) correction.Measured(1.1, 1);
  EXPECT_NEAR(correction.factor(), 1.1, 1e-3);
  for (int i = 0; i < 100; ++i) correction.Measured(9, 1);
  EXPECT_NEAR(correction.factor(), 1.3, 1e-3);
  const double before = correction.factor();
  correction.Measured(0, 1);
  correction.Measured(1, 0);
  correction.Measured(std::numeric_limits<double>::quiet_NaN(), 1);
  EXPECT_EQ(correction.factor(), before);
}

TEST(InterferenceKind, NamesAreRead) {
  for (const InterferenceKind kind : kInterferenceKinds) {
    EXPECT_EQ(ParseInterferenceKind(Name(kind)), kind);
  }
  const auto unknown = ParseInterferenceKind("cubic");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message.find("ridge"), std::string::npos);
}

}  // namespace
}  // namespace lagoon
