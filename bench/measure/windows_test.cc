#include "bench/measure/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

#include "bench/measure/interval.h"

namespace lagoon::bench {
namespace {

using ::testing::ElementsAre;

// A host in virtual time. The host becomes slower and slower, is noisy, and is disturbed in some
// windows.
class FakeHost final : public HostWatch {
 public:
  struct Options {
    double drift = 0;      // every window is slower by this part of the first one's time
    double noise = 0;      // deviation of a window's speed
    double disturbed = 0;  // probability that a window is disturbed
    double slowdown = 3;   // factor in a disturbed window
    std::uint32_t seed = 1;
  };
  explicit FakeHost(const Options& options) : options_(options), random_(options.seed) {}

  void Begin() override {
    disturbs_ = std::uniform_real_distribution<double>(0, 1)(random_) < options_.disturbed;
    if (script_) disturbs_ = (*script_)(windows_);
    ++windows_;
  }
  HostReading End() override {
    HostReading reading;
    reading.core_seconds = 2;
    reading.stolen_s = disturbs_ ? 0.5 : 0.001;
    reading.unit_us = reading.late_us = 50;
    return reading;
  }
  // Which windows are disturbed, by their number in the order of time.
  void Disturb(std::function<bool(int)> script) { script_ = std::move(script); }

  TimePoint now() const { return now_; }
  // Runs work of `ms` on a free host; returns its time on this host. Disturbances slow down only a
  // side that `suffers`.
  double Run(double ms, bool suffers) {
    double factor = 1 + options_.drift * windows_;
    factor *= 1 + options_.noise * std::normal_distribution<double>()(random_);
    if (disturbs_ && suffers) factor *= options_.slowdown;
    now_ += std::chrono::seconds(1);
    return ms * factor;
  }
  int windows() const { return windows_; }

 private:
  const Options options_;
  std::mt19937 random_;
  std::optional<std::function<bool(int)>> script_;
  bool disturbs_ = false;
  int windows_ = 0;
  TimePoint now_;
};

// Measures sides of 10 and 10.5 ms.
struct Comparison {
  std::vector<std::array<double, 2>> ms;  // by trial
  std::vector<WindowPlace> places;
  Result<WindowsResult> Run(FakeHost& host, WindowsPlan plan) {
    plan.groups = {"one"};
    plan.windows = {"alone", "contended"};
    return MeasureWindows(
        plan, host, [&] { return host.now(); },
        [&](const WindowPlace& place) {
          places.push_back(place);
          if (ms.size() <= place.trial) ms.resize(place.trial + 1);
          ms[place.trial][place.window] =
              host.Run(place.window == 0 ? 10 : 10.5, place.window == 1);
          return Status();
        });
  }
  Interval Ratio(const std::vector<std::size_t>& trials) const {
    std::vector<double> ratios;
    for (const std::size_t trial : trials) ratios.push_back(ms[trial][1] / ms[trial][0]);
    return MedianInterval(ratios, 1);
  }
};

TEST(Windows, ABiasedNoisyDisturbedHostGivesTheRightInterval) {
  int held = 0, held_with_all = 0;
  constexpr int kRuns = 40;
  for (int run = 0; run < kRuns; ++run) {
    FakeHost host(
        {.drift = 0.02, .noise = 0.02, .disturbed = 0.4, .seed = static_cast<std::uint32_t>(run)});
    Comparison comparison;
    const Result<WindowsResult> result =
        comparison.Run(host, {.rounds = 20, .repeats = 2, .seed = static_cast<std::uint32_t>(run)});
    ASSERT_TRUE(result);
    const Interval interval = comparison.Ratio(result->trials[0]);
    EXPECT_GE(interval.pairs, 15u);
    held += interval.low <= 1.05 && 1.05 <= interval.high ? 1 : 0;
    std::vector<std::size_t> all(comparison.ms.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const Interval with_all = comparison.Ratio(all);
    held_with_all += with_all.low <= 1.05 && 1.05 <= with_all.high ? 1 : 0;
  }
  EXPECT_GE(held, kRuns * 85 / 100);
  EXPECT_LT(held_with_all, held);  // throwing trials out makes a difference
}

TEST(Windows, ADisturbedWindowIsThrownOutWithItsPairAndMeasuredAgain) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {  // seeds decide which side is disturbed
    FakeHost host({.slowdown = 100});
    host.Disturb([](int window) { return window == 3; });  // the second of the second trial
    Comparison comparison;
    const Result<WindowsResult> result = comparison.Run(host, {.rounds = 3, .seed = seed});
    ASSERT_TRUE(result);
    EXPECT_THAT(result->trials[0], ElementsAre(0u, 2u, 3u));
    EXPECT_TRUE(result->Clean(0));
    EXPECT_EQ(result->summary.windows, 8);
    EXPECT_EQ(result->summary.disturbed, 1);
    EXPECT_EQ(result->summary.stolen, 1);
    EXPECT_EQ(result->summary.repeated, 1);
    EXPECT_EQ(result->summary.thrown_out, 1);
    EXPECT_EQ(comparison.places.back().round, 1u);  // the round of the replaced trial
    EXPECT_DOUBLE_EQ(comparison.Ratio(result->trials[0]).high, 1.05);
  }
}

TEST(Windows, AGroupIsPreparedBeforeEachOfItsTrials) {
  FakeHost host({});
  host.Disturb([](int window) { return window == 2; });
  std::vector<int> begun;  // windows, when the group is prepared
  Comparison comparison;
  ASSERT_TRUE(comparison.Run(host, {.rounds = 2, .prepare = [&](std::size_t) {
                                      begun.push_back(host.windows());
                                      return Status();
                                    }}));
  EXPECT_THAT(begun, ElementsAre(0, 2, 4));  // the third trial is a repetition
  const auto fails = [](std::size_t) -> Status { return Fail(ErrorCode::kInternal, "no"); };
  EXPECT_FALSE(comparison.Run(host, {.prepare = fails}));
}

TEST(Windows, RepetitionsAreBoundedAndAHostThatIsNeverFreeDecidesNothing) {
  FakeHost host({.disturbed = 1});
  Comparison comparison;
  const Result<WindowsResult> result = comparison.Run(host, {.rounds = 4, .repeats = 0.5});
  ASSERT_TRUE(result);
  EXPECT_EQ(host.windows(), 2 * (4 + 2));
  EXPECT_FALSE(result->Clean(0));
  EXPECT_EQ(result->trials[0].size(), 6u);  // all disturbed trials count, as there is no other
  EXPECT_THAT(result->summary.only_disturbed, ElementsAre("one"));
}

TEST(Windows, OrderIsRandomAndDeterminedByTheSeed) {
  const auto order = [](std::uint32_t seed) {
    FakeHost host({});
    Comparison comparison;
    EXPECT_TRUE(comparison.Run(host, {.rounds = 30, .seed = seed}));
    std::vector<std::size_t> windows;
    for (const WindowPlace& place : comparison.places) windows.push_back(place.window);
    return windows;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  int second_first = 0;
  const std::vector<std::size_t> windows = order(1);
  for (std::size_t i = 0; i < windows.size(); i += 2) {
    EXPECT_NE(windows[i], windows[i + 1]);  // a pair is adjacent
    second_first += windows[i] == 1 ? 1 : 0;
  }
  EXPECT_GT(second_first, 5);
  EXPECT_LT(second_first, 25);
}

TEST(Windows, NoRoundBeginsThatWouldEndAfterTheLimit) {
  FakeHost host({});
  Comparison comparison;
  const Result<WindowsResult> result = comparison.Run(host, {.rounds = 100, .seconds = 13});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->trials[0].size(), 5u);  // a window takes one second here
  FakeHost busy({.disturbed = 1});
  ASSERT_TRUE(comparison.Run(busy, {.rounds = 100, .repeats = 10, .seconds = 13}));
  EXPECT_EQ(busy.windows(), 12);  // one repetition more
}

TEST(Windows, TheFirstErrorEndsTheMeasurement) {
  FakeHost host({});
  int measured = 0;
  const Result<WindowsResult> result = MeasureWindows(
      {.groups = {"one"}, .windows = {"side"}}, host, [&] { return host.now(); },
      [&](const WindowPlace&) -> Status {
        if (++measured < 3) return {};
        return Fail(ErrorCode::kInternal, "the side is gone");
      });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the side is gone");
  EXPECT_EQ(measured, 3);
}

TEST(Windows, EveryKindOfDisturbanceIsFound) {
  HostReading usual;
  usual.unit_us = 50;
  usual.late_us = 3'000;
  HostReading reading = usual;
  reading.core_seconds = 4;
  EXPECT_EQ(Judge(reading, usual), Disturbance::kNone);
  reading.stolen_s = 0.2;
  EXPECT_EQ(Judge(reading, usual), Disturbance::kStolen);
  reading.stolen_s = 0.05;
  reading.foreign_s = 0.5;
  EXPECT_EQ(Judge(reading, usual), Disturbance::kForeign);
  reading.foreign_s = 0.1;
  reading.unit_us = 60;
  EXPECT_EQ(Judge(reading, usual), Disturbance::kSlow);
  reading.unit_us = 52;
  reading.late_us = 11'000;
  EXPECT_EQ(Judge(reading, usual), Disturbance::kLate);
  usual.unit_us = usual.late_us = std::nan("");
  EXPECT_EQ(Judge(reading, usual), Disturbance::kNone);  // too few trials to know what is usual
}

TEST(HostTimes, AreReadFromProcStat) {
  const HostTimes times =
      ParseHostTimes("cpu  100 20 30 4000 50 6 7 800 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n", 100);
  EXPECT_DOUBLE_EQ(times.busy_s, 1.63);
  EXPECT_DOUBLE_EQ(times.stolen_s, 8);
  EXPECT_TRUE(std::isnan(ParseHostTimes("", 100).stolen_s));
  EXPECT_TRUE(std::isnan(ParseHostTimes("cpu 1 2 3", 100).busy_s));
}

TEST(HostProbe, ReadsThisMachine) {
  HostProbe probe;
  probe.Begin();
  const HostReading reading = probe.End();
  EXPECT_GT(reading.core_seconds, 0);
  EXPECT_FALSE(reading.foreign_s < 0);
  EXPECT_TRUE(std::isnan(reading.unit_us));  // unknown, as the window is far too short
}

}  // namespace
}  // namespace lagoon::bench
