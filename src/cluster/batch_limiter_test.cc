#include "cluster/batch_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/random.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;

Nanoseconds Ms(double ms) { return Nanoseconds(std::llround(ms * 1e6)); }

using TimeOf = std::function<double(std::int64_t rows)>;  // ms

double Vgg19Ms(std::int64_t rows) { return 19.6 + 1.36 * static_cast<double>(rows); }  // Table 5

// Runs full batches one after another.
class FullBatches {
 public:
  FullBatches(BatchLimiter& limiter, TimeOf time_of)
      : limiter_(limiter), time_of_(std::move(time_of)) {}

  void Batch() {
    const double ms = time_of_(limiter_.Limit());
    limits_.push_back(limiter_.Limit());
    now_ += Ms(ms);
    ends_ms_.push_back(ToMilliseconds(now_.time_since_epoch()));
    limiter_.Batch(limiter_.Limit(), Ms(ms), now_);
  }
  void Batches(int count) {
    for (int i = 0; i < count; ++i) Batch();
  }
  // The limits without repetitions, the next one included.
  std::vector<std::int64_t> Steps() const {
    std::vector<std::int64_t> steps = limits_;
    steps.push_back(limiter_.Limit());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    return steps;
  }
  // When the first batch of the last limit ended.
  double ConvergedMs() const { return ReachedMs(limiter_.Limit()); }
  // When the first batch of `rows` rows ended. -1: there was none.
  double ReachedMs(std::int64_t rows) const {
    const auto first = std::ranges::find(limits_, rows);
    return first == limits_.end() ? -1
                                  : ends_ms_[static_cast<std::size_t>(first - limits_.begin())];
  }
  const std::vector<std::int64_t>& limits() const { return limits_; }
  TimePoint now() const { return now_; }

 private:
  BatchLimiter& limiter_;
  TimeOf time_of_;
  TimePoint now_{};
  std::vector<std::int64_t> limits_;  // by batch
  std::vector<double> ends_ms_;       // by batch
};

BatchLimiter::Options Options(double slo_ms, std::int64_t most = 1000) {
  return {.slo = Ms(slo_ms), .most = most};
}

std::unique_ptr<BatchLimiter> Make(std::string_view kind, const BatchLimiter::Options& options) {
  auto made = MakeBatchLimiter(kind, options);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(Slab, ReachesTheLimitsOfVgg19InTheTimesOfThePaper) {
  // SLO, limits, time in ms. The paper: below 300 ms at an SLO of 50 ms, below 500 ms at all.
  struct Row {
    double slo_ms;
    std::vector<std::int64_t> limits;
    double converged_ms;
  };
  for (const Row& row : {Row{25, {1, 2, 3}, 67}, Row{50, {1, 3, 7, 13, 18, 21}, 203},
                         Row{75, {1, 4, 12, 26, 36}, 205}, Row{100, {1, 5, 19, 42, 55}, 264},
                         Row{200, {1, 10, 61, 119}, 338}}) {
    const auto slab = Make("slab", Options(row.slo_ms));
    FullBatches run(*slab, Vgg19Ms);
    run.Batches(30);
    EXPECT_EQ(run.Steps(), row.limits) << row.slo_ms;
    EXPECT_NEAR(run.ConvergedMs(), row.converged_ms, 0.5) << row.slo_ms;
  }
}

// A random line a + c b of the budget, with a + c <= 1.
struct Line {
  explicit Line(Random& random) : a(random.Uniform()), c(random.Uniform() * (1 - a)) {
    if (random.Happens(0.5)) c *= random.Uniform() * random.Uniform();  // small slopes matter most
  }
  double At(std::int64_t rows) const { return a + c * static_cast<double>(rows); }
  double a, c;
};

constexpr std::int64_t kMost = 32;

TEST(Slab, SettlesWithinEighteenBatchesForEveryLine) {
  Random random(12);
  std::size_t slowest = 0, slowest_with_room = 0;
  for (int draw = 0; draw < 10'000; ++draw) {
    const Line line(random);
    const auto slab = Make("slab", Options(1, kMost));
    FullBatches run(*slab, [&](std::int64_t rows) { return line.At(rows); });
    run.Batches(60);
    ASSERT_LE(line.At(slab->Limit()), 1);
    std::size_t settled = run.limits().size();  // batches before the first one of the last limit
    while (settled > 0 && run.limits()[settled - 1] == slab->Limit()) --settled;
    slowest = std::max(slowest, settled);
    if (line.a <= 0.7) slowest_with_room = std::max(slowest_with_room, settled);
  }
  EXPECT_LE(slowest, 18u);
  EXPECT_GT(slowest, 10u);
  EXPECT_LE(slowest_with_room, 10u);
}

// Rounding up and down swings for ever here: 1, 2, 1, 2.
TEST(Slab, ALimitFoundToBeOverTheBudgetIsNotReachedAgain) {
  const auto slab = Make("slab", Options(1, kMost));
  FullBatches run(*slab, [](std::int64_t rows) { return 0.1 + 0.5 * static_cast<double>(rows); });
  run.Batches(100);
  EXPECT_EQ(run.Steps(), (std::vector<std::int64_t>{1, 2, 1}));
}

TEST(Slab, NeverSwingsWithNoise) {
  Random random(13);
  for (int draw = 0; draw < 10'000; ++draw) {
    const Line line(random);
    const auto slab = Make("slab", Options(1, kMost));
    FullBatches run(*slab,
                    [&](std::int64_t rows) { return line.At(rows) * random.Uniform(0.95, 1.05); });
    // All within the second: a batch takes about 1 ms. A limit that was left downwards, and any
    // above it, must not come back.
    std::int64_t ceiling = std::numeric_limits<std::int64_t>::max();
    std::int64_t before = 1;
    for (int batch = 0; batch < 200; ++batch) {
      run.Batch();
      ASSERT_LT(slab->Limit(), ceiling) << line.a << " + " << line.c << " b, batch " << batch;
      if (slab->Limit() < before) ceiling = before;
      before = slab->Limit();
    }
  }
}

// Batches of two rows are over the budget: 110 ms of 100.
TEST(Slab, TriesALimitAgainAfterASecondAndThenAfterTwiceAsLong) {
  const auto slab = Make("slab", Options(100, kMost));
  FullBatches run(*slab, [](std::int64_t rows) { return 10 + 50 * static_cast<double>(rows); });
  run.Batches(3);
  ASSERT_EQ(run.Steps(), (std::vector<std::int64_t>{1, 2, 1}));
  const TimePoint found = TimePoint(Ms(60 + 2 * 110));
  while (run.now() < found + milliseconds(1000)) {
    EXPECT_EQ(slab->Limit(), 1);
    run.Batch();
  }
  EXPECT_EQ(slab->Limit(), 2);
  std::size_t tries = 1;
  for (std::int64_t before = 1; run.now() < TimePoint(std::chrono::seconds(60)); run.Batch()) {
    tries += slab->Limit() == 2 && before == 1 ? 1 : 0;
    before = slab->Limit();
  }
  EXPECT_EQ(tries, 6u) << "after 1, 2, 4, 8 and 16 s";
}

// The first try at 2 rows after the share grew holds, so that the next one that fails is a new one.
TEST(Slab, AShareThatGrewEndsTheLongMemory) {
  double factor = 1;
  const auto slab = Make("slab", Options(100, kMost));
  FullBatches run(
      *slab, [&](std::int64_t rows) { return factor * (10 + 50 * static_cast<double>(rows)); });
  while (run.now() < TimePoint(std::chrono::seconds(20))) run.Batch();
  ASSERT_EQ(slab->Limit(), 1);
  factor = 0.6;  // 2 rows in 66 ms, 3 in 96
  run.Batches(10);
  ASSERT_EQ(slab->Limit(), 3);
  factor = 1;
  run.Batches(10);
  ASSERT_EQ(slab->Limit(), 1);
  const TimePoint now = run.now();
  while (slab->Limit() == 1) run.Batch();
  EXPECT_LT(run.now() - now, milliseconds(1200));
}

TEST(Slab, OneSlowBatchOfThreeLowersNothing) {
  const auto slab = Make("slab", Options(50));
  FullBatches run(*slab, Vgg19Ms);
  run.Batches(20);
  ASSERT_EQ(slab->Limit(), 21);
  for (int i = 0; i < 30; ++i) {
    slab->Batch(21, Ms(i % 3 == 0 ? 400 : Vgg19Ms(21)), run.now());
    ASSERT_EQ(slab->Limit(), 21) << i;
  }
  run.Batches(5);
  slab->Batch(21, Ms(70), run.now());
  slab->Batch(21, Ms(70), run.now());
  ASSERT_EQ(slab->Limit(), 21) << "the median is that of five";
  slab->Batch(21, Ms(70), run.now());
  EXPECT_EQ(slab->Limit(), 15);
}

// A tenth of the batches takes three times as long, as on a host that others use too.
TEST(Slab, StaysPutOnANoisyHost) {
  Random random(15);
  for (const double slo_ms : {25, 50, 100, 200}) {
    const auto slab = Make("slab", Options(slo_ms));
    FullBatches run(*slab, [&](std::int64_t rows) {
      return Vgg19Ms(rows) * random.Uniform(0.97, 1.03) * (random.Happens(0.1) ? 3 : 1);
    });
    while (run.now() < TimePoint(std::chrono::seconds(30))) run.Batch();
    const auto fits = static_cast<std::int64_t>((slo_ms - 19.6) / 1.36);
    const std::size_t half = run.limits().size() / 2;
    double sum = 0;
    for (std::size_t i = half; i < run.limits().size(); ++i) {
      sum += static_cast<double>(run.limits()[i]);
    }
    EXPECT_GT(sum / static_cast<double>(run.limits().size() - half),
              0.75 * static_cast<double>(fits))
        << slo_ms;
  }
}

TEST(Slab, GrowsAtOnceWhenBatchesBecomeFaster) {
  double factor = 1;
  const auto slab = Make("slab", Options(50));
  FullBatches run(*slab, [&](std::int64_t rows) { return factor * Vgg19Ms(rows); });
  run.Batches(10);
  ASSERT_EQ(slab->Limit(), 21);
  factor = 1.2;  // finds that 21 is too much
  run.Batches(10);
  const std::int64_t less = slab->Limit();
  ASSERT_LT(less, 21);
  factor = 0.6;  // the share grew
  const TimePoint grew = run.now();
  while (slab->Limit() == less && run.now() - grew < milliseconds(300)) run.Batch();
  EXPECT_GT(slab->Limit(), less) << "within 300 ms";
  run.Batches(10);
  EXPECT_GT(slab->Limit(), 40);
}

TEST(Slab, FewRequestsDoNotRaiseTheLimit) {
  const auto slab = Make("slab", Options(50));
  FullBatches run(*slab, Vgg19Ms);
  run.Batches(2);
  ASSERT_EQ(slab->Limit(), 7);
  for (int i = 0; i < 20; ++i) slab->Batch(1, Ms(Vgg19Ms(1)), run.now());
  EXPECT_EQ(slab->Limit(), 7);
  run.Batch();  // nor do they count in the average: it is that of 7 rows
  EXPECT_EQ(slab->Limit(), 13);
}

TEST(Slab, AFewRowsOverTheBudgetLowerTheLimit) {
  const auto slab = Make("slab", Options(50));
  FullBatches run(*slab, Vgg19Ms);
  run.Batches(2);
  ASSERT_EQ(slab->Limit(), 7);
  slab->Batch(3, Ms(70), run.now());
  EXPECT_EQ(slab->Limit(), 7) << "one may be an accident";
  slab->Batch(3, Ms(70), run.now());
  EXPECT_EQ(slab->Limit(), 5);
}

TEST(Slab, ABatchFormedUnderALargerLimitDoesNotCount) {
  const auto slab = Make("slab", Options(50));
  slab->Batch(30, Ms(60), TimePoint{});
  EXPECT_EQ(slab->Limit(), 1);
  slab->Batch(1, Ms(25), TimePoint{});
  EXPECT_EQ(slab->Limit(), 2);
}

TEST(Slab, AnSloOfRequestsLeavesHalfOfTheTimeToABatch) {
  BatchLimiter::Options options = Options(100);
  options.slo_of = SloOf::kRequest;
  const auto slab = Make("slab", options);
  FullBatches run(*slab, Vgg19Ms);
  run.Batches(30);
  EXPECT_EQ(run.Steps(), (std::vector<std::int64_t>{1, 3, 7, 13, 18, 21}));
}

TEST(Slab, FiveLateBatchesOfOneRowGiveANotice) {
  const auto slab = Make("slab", Options(50));
  for (int i = 0; i < 4; ++i) slab->Batch(1, Ms(65), TimePoint{});
  EXPECT_EQ(slab->TakeNotice(), BatchNotice::kNone);
  slab->Batch(1, Ms(65), TimePoint{});
  EXPECT_EQ(slab->TakeNotice(), BatchNotice::kUnder);
  EXPECT_EQ(slab->TakeNotice(), BatchNotice::kNone);
  EXPECT_EQ(slab->Limit(), 1);
}

TEST(Slab, FiveBatchesWithinTheSloGiveANotice) {
  const auto slab = Make("slab", Options(50));
  for (int i = 0; i < 3; ++i) slab->Batch(1, Ms(65), TimePoint{});
  for (int i = 0; i < 4; ++i) slab->Batch(1, Ms(1), TimePoint{});
  EXPECT_EQ(slab->TakeNotice(), BatchNotice::kNone);  // the average is late at first
  for (int i = 0; i < 4; ++i) slab->Batch(1, Ms(1), TimePoint{});
  EXPECT_EQ(slab->TakeNotice(), BatchNotice::kOver);
}

// At SLOs of 50, 100 and 200 ms it needs 0.8, 3.6 and 14.5 s, where SLAB needs 0.20, 0.26 and
// 0.34 s.
TEST(Aimd, GrowsByOneRowABatch) {
  for (const auto& [slo_ms, rows, after_s] :
       {std::tuple{50.0, 22, 0.775}, {100.0, 59, 3.564}, {200.0, 132, 14.52}}) {
    const auto aimd = Make("aimd", Options(slo_ms));
    FullBatches run(*aimd, Vgg19Ms);
    while (aimd->Limit() <= rows && run.limits().size() < 200) run.Batch();
    EXPECT_NEAR(run.ReachedMs(rows) / 1000, after_s, 0.01) << slo_ms;
    run.Batch();  // one row too many
    EXPECT_EQ(aimd->Limit(), (rows + 1) * 9 / 10) << slo_ms;
  }
}

TEST(Aimd, FewRequestsDoNotRaiseTheLimit) {
  const auto aimd = Make("aimd", Options(50, 4));
  FullBatches run(*aimd, [](std::int64_t) { return 1.0; });
  run.Batch();
  aimd->Batch(1, Ms(1), run.now());
  EXPECT_EQ(aimd->Limit(), 2);
  run.Batches(10);
  EXPECT_EQ(aimd->Limit(), 4);
  for (int i = 0; i < 10; ++i) aimd->Batch(aimd->Limit(), Ms(60), run.now());
  EXPECT_EQ(aimd->Limit(), 1);
}

double ClipperConvergesAfterMs(double slo_ms, std::uint32_t seed) {
  BatchLimiter::Options options = Options(slo_ms);
  options.seed = seed;
  const auto clipper = Make("clipper", options);
  FullBatches run(*clipper, Vgg19Ms);
  while (Vgg19Ms(clipper->Limit()) < 0.92 * slo_ms) run.Batch();  // it explores until then
  return ToMilliseconds(run.now().time_since_epoch());
}

// Its code waits for five batches of each size before it tries the next. The paper measured 3.5 s
// at an SLO of 50 ms and more than 10 s at 100 ms, with a VGG-19 of 14 ms at one row. Here, with
// the VGG-19 of Table 5 and over 20 seeds: 2.5 to 3.4 s at 50 ms, 5.9 to 7.6 s at 100 ms, 10.8 to
// 14.5 s at 200 ms.
TEST(ClipperHead, ExploresFiveBatchesOfEachSize) {
  const auto clipper = Make("clipper", Options(50));
  FullBatches run(*clipper, Vgg19Ms);
  run.Batches(45);
  for (std::size_t i = 0; i < 45; ++i) {
    EXPECT_EQ(run.limits()[i], static_cast<std::int64_t>(i / 5 + 1));
  }
  struct Row {
    double slo_ms, least_ms, most_ms;
  };
  for (const Row& row : {Row{50, 2500, 3500}, Row{100, 5500, 8000}, Row{200, 10'500, 15'000}}) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      const double converged_ms = ClipperConvergesAfterMs(row.slo_ms, seed);
      EXPECT_GT(converged_ms, row.least_ms) << row.slo_ms << ", seed " << seed;
      EXPECT_LT(converged_ms, row.most_ms) << row.slo_ms << ", seed " << seed;
    }
  }
}

TEST(ClipperHead, EstimatesAfterwardsAndDoesNotGrowAgain) {
  double factor = 1;
  const auto clipper = Make("clipper", Options(50));
  FullBatches run(*clipper, [&](std::int64_t rows) { return factor * Vgg19Ms(rows); });
  run.Batches(300);
  EXPECT_EQ(clipper->Limit(), 19);  // 0.92 * 50 ms
  EXPECT_LE(Vgg19Ms(clipper->Limit()), 46);
  factor = 0.5;
  run.Batches(300);
  EXPECT_LT(clipper->Limit(), 30);  // 52 rows would do
}

TEST(ClipperHead, OneSlowBatchAloneIsEstimatedFrom) {
  const auto clipper = Make("clipper", Options(50));
  clipper->Batch(1, Ms(100), TimePoint{});
  EXPECT_EQ(clipper->Limit(), 1);
}

TEST(BatchLimiter, LimitsStayInBoundsWhateverBatchesTake) {
  Random random(14);
  std::vector<std::string_view> kinds = BatchLimiterKinds();
  kinds.emplace_back("fixed:9");
  for (const std::string_view kind : kinds) {
    for (const std::int64_t most : {std::int64_t{1}, std::int64_t{7}, std::int64_t{65536}}) {
      auto limiter = MakeBatchLimiter(kind, Options(1, most));
      ASSERT_TRUE(limiter);
      TimePoint now{};
      for (int i = 0; i < 2000; ++i) {
        const Nanoseconds took(random.Happens(0.1)   ? std::int64_t{0}
                               : random.Happens(0.1) ? std::int64_t{1} << 60
                                                     : std::int64_t{random.Below(2'000'000)});
        const std::int64_t rows =
            random.Happens(0.1) ? std::numeric_limits<std::int64_t>::max()
                                : std::max(std::int64_t{1}, (*limiter)->Limit() - random.Below(2));
        now += Nanoseconds(random.Below(10'000'000));
        (*limiter)->Batch(rows, took, now);
        ASSERT_GE((*limiter)->Limit(), 1);
        ASSERT_LE((*limiter)->Limit(), most);
      }
    }
  }
}

TEST(FixedLimit, StaysWhateverBatchesTake) {
  for (const auto& [kind, most, limit] :
       {std::tuple("fixed:1", 32, 1), std::tuple("fixed:12", 32, 12),
        std::tuple("fixed:64", 32, 32)}) {
    const auto fixed = MakeBatchLimiter(kind, Options(50, most));
    ASSERT_TRUE(fixed) << kind;
    for (const std::int64_t ms : {1, 1000, 49, 1}) {
      EXPECT_EQ((*fixed)->Limit(), limit) << kind;
      (*fixed)->Batch((*fixed)->Limit(), Ms(static_cast<double>(ms)), TimePoint{});
    }
    EXPECT_EQ((*fixed)->Limit(), limit) << kind;
    EXPECT_EQ((*fixed)->TakeNotice(), BatchNotice::kNone);
  }
}

TEST(BatchLimiter, HostileOptionsAreRefusedByName) {
  const std::string refused = MakeBatchLimiter("best", Options(50)).error().message;
  EXPECT_EQ(refused, "no batch limiter 'best'; there are " + BatchLimiterWords());
  EXPECT_NE(refused.find("slab, aimd"), refused.npos);
  EXPECT_NE(refused.find("fixed:ROWS (1 to 65536)"), refused.npos);
  for (const char* kind : {"fixed", "fixed:", "fixed:0", "fixed:-1", "fixed:65537", "fixed:1.5",
                           "fixed:8 ", "fixed: 8", "fixed:99999999999999999999", "Fixed:8"}) {
    EXPECT_FALSE(MakeBatchLimiter(kind, Options(50))) << kind;
    EXPECT_FALSE(FixedRowsOf(kind)) << kind;
  }
  EXPECT_EQ(MakeBatchLimiter("slab", Options(50, 0)).error().message,
            "the most rows of a batch is 0, must be from 1 to 65536");
  EXPECT_FALSE(MakeBatchLimiter("slab", Options(50, -1)));
  EXPECT_FALSE(MakeBatchLimiter("slab", Options(50, 1 << 20)));
  for (const Nanoseconds slo :
       {Nanoseconds(0), Nanoseconds(-1), Nanoseconds::min(), Nanoseconds::max()}) {
    EXPECT_FALSE(MakeBatchLimiter("slab", {.slo = slo}));
  }
}

TEST(BatchLimiterDeathTest, RefusesBatchesThatCannotBe) {
  const auto slab = Make("slab", Options(50));
  EXPECT_DEATH(slab->Batch(0, Ms(1), TimePoint{}), "rows >= 1");
  EXPECT_DEATH(slab->Batch(1, Nanoseconds(-1), TimePoint{}), "took.count");
}

}  // namespace
}  // namespace lagoon
