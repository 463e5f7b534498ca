#include "bench/shares/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lagoon::bench {
namespace {

using ::testing::HasSubstr;

// Two phases of 5 s.
TuneOptions Short() {
  TuneOptions options;
  options.models = {"resnet50", "alexnet"};
  options.seconds = 10;
  options.hot = 0.7;
  options.cold = 0.1;
  options.hold_down_s = 2;
  return options;
}

const TuneSide& Side(std::string_view name) {
  const auto found = std::ranges::find(TuneSides(), name, &TuneSide::name);
  EXPECT_NE(found, TuneSides().end()) << name;
  return *found;
}

TuneRun RunOf(const TuneOptions& options, std::string_view side) {
  auto run = RunTuneSide(options, Side(side));
  EXPECT_TRUE(run) << run.error().message;
  return *std::move(run);
}

TEST(Tune, TheSharesFollowTheLoad) {
  const TuneRun run = RunOf(Short(), "tuned");
  const auto share = [&](std::size_t model, std::size_t second) {
    return run.models[model].share_percent.at(second - 1);
  };
  EXPECT_GT(share(0, 5), share(1, 5)) << "the first model is hot";
  EXPECT_GT(share(1, 10), share(1, 5)) << "the second model is hot";
  EXPECT_LT(share(0, 10), share(0, 5));
  for (std::size_t second = 1; second <= 10; ++second) {
    EXPECT_LE(share(0, second) + share(1, second), 100 + 1e-9) << second;
  }
  for (const TuneDecision& decision : run.decisions) {
    EXPECT_FALSE(decision.why.empty());
    // A share of the same size may move to other units, to make room.
    EXPECT_TRUE(decision.from != decision.to || decision.why == "the shares of others changed");
  }
  EXPECT_GE(run.decisions.size(), 4u) << "the first shares, and a move of each";
}

// Tuned shares alone follow too late when the load changes every ten seconds: a model that moved
// waits for the hold-down, and the requests of that time are late. Lent units do not wait.
TEST(Tune, AllRequestsAreAnsweredAndLentSharesKeepMostOfThemInTime) {
  const auto kept = [](const TuneRun& run) {
    double in_time = 0, all = 0;
    for (const TunedModel& model : run.models) {
      EXPECT_EQ(model.latencies_ms.size(), model.arrived);
      EXPECT_GT(model.arrived, 50u);
      in_time += static_cast<double>(
          std::ranges::count_if(model.latencies_ms, [&](double ms) { return ms <= model.slo_ms; }));
      all += static_cast<double>(model.arrived);
    }
    EXPECT_EQ(run.lost, 0u);
    return in_time / all;
  };
  TuneOptions options = Short();
  options.seconds = 20;
  options.hot = 0.85;
  options.cold = 0.05;
  const double equal = kept(RunOf(options, "equal"));
  const double lent = kept(RunOf(options, "tuned-lent"));
  EXPECT_GT(lent, equal);
  EXPECT_GT(lent, 0.85);
  EXPECT_GT(kept(RunOf(options, "tuned")), 0);
}

TEST(Tune, EqualSharesStayAndWithoutSharesThereIsNone) {
  const TuneRun equal = RunOf(Short(), "equal");
  for (const TunedModel& model : equal.models) {
    for (const double percent : model.share_percent) EXPECT_NEAR(percent, 50, 1);
  }
  for (const TuneDecision& decision : equal.decisions) EXPECT_EQ(decision.from, 0);
  const TuneRun none = RunOf(Short(), "no-shares");
  EXPECT_TRUE(none.decisions.empty());
  EXPECT_TRUE(none.models[0].share_percent.empty());
}

// 80 units are no multiple of three.
TEST(Tune, EqualSharesOfThreeModelsFitTheDevice) {
  TuneOptions options = Short();
  options.models = {"vgg19", "resnet50", "alexnet"};
  options.seconds = 1;
  const TuneRun run = RunOf(options, "equal");
  for (const TunedModel& model : run.models) {
    ASSERT_EQ(model.share_percent.size(), 1u);
    EXPECT_DOUBLE_EQ(model.share_percent[0], 100 * 26.0 / 80);
  }
}

TEST(Tune, SidesGetTheSameRequestsAndEqualSeedsGiveEqualRuns) {
  const TuneRun one = RunOf(Short(), "tuned"), again = RunOf(Short(), "tuned");
  const TuneRun equal = RunOf(Short(), "equal");
  TuneOptions other = Short();
  other.seed = 9;
  for (std::size_t i = 0; i < one.models.size(); ++i) {
    EXPECT_EQ(one.models[i].latencies_ms, again.models[i].latencies_ms);
    EXPECT_EQ(one.models[i].arrived, equal.models[i].arrived);
    EXPECT_NEAR(static_cast<double>(one.models[i].arrived),
                5 * (one.models[i].rates[0] + one.models[i].rates[1]),
                0.3 * 5 * (one.models[i].rates[0] + one.models[i].rates[1]));
  }
  EXPECT_NE(RunOf(other, "tuned").models[0].latencies_ms, one.models[0].latencies_ms);
}

TEST(SettleSeconds, IsThatOfTheLastMoveInThePhase) {
  const std::vector<TuneDecision> decisions = {{0, "a", 0, 0.3, "first"},
                                               {1, "a", 0.3, 0.5, ""},
                                               {4, "b", 0.3, 0.2, ""},
                                               {10, "a", 0.5, 0.4, ""},
                                               {12.5, "b", 0.2, 0.3, "more"}};
  EXPECT_EQ(SettleSeconds(decisions, 0, 10), 4);
  EXPECT_EQ(SettleSeconds(decisions, 10, 20), 2.5);
  EXPECT_EQ(SettleSeconds(decisions, 20, 30), std::nullopt);
  EXPECT_EQ(SettleSeconds({decisions[0]}, 0, 10), std::nullopt) << "a first share is no move";
}

TEST(Tune, HostileOptionsAreRefusedByName) {
  const auto message = [](auto change) {
    TuneOptions options = Short();
    change(options);
    const auto run = RunTuneSide(options, Side("tuned"));
    return run ? std::string() : run.error().message;
  };
  EXPECT_THAT(message([](auto& o) { o.models = {"vgg19"}; }), HasSubstr("at least two"));
  EXPECT_THAT(message([](auto& o) { o.models = {"vgg19", "vgg19"}; }), HasSubstr("each once"));
  EXPECT_THAT(message([](auto& o) { o.models = {"vgg19", "nothing"}; }), HasSubstr("nothing"));
  EXPECT_THAT(message([](auto& o) { o.gpu = "nothing"; }), HasSubstr("nothing"));
  EXPECT_THAT(message([](auto& o) { o.gpu = "nano"; }), HasSubstr("'nano'"));
  EXPECT_THAT(message([](auto& o) { o.seconds = 0.5; }), HasSubstr("0.5"));
  EXPECT_THAT(message([](auto& o) { o.hot = 0; }), HasSubstr("hot"));
  EXPECT_THAT(message([](auto& o) { o.cold = 11; }), HasSubstr("11"));
  EXPECT_THAT(message([](auto& o) { o.slo_factor = 0; }), HasSubstr("SLO"));
  EXPECT_THAT(message([](auto& o) { o.hold_down_s = -1; }), HasSubstr("hold-down"));
}

}  // namespace
}  // namespace lagoon::bench
