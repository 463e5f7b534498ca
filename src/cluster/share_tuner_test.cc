#include "cluster/share_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/random.h"
#include "cluster/knee.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint At(double second) {
  return TimePoint(milliseconds(static_cast<std::int64_t>(second * 1000)));
}

ShareTuner Make(const ShareTuner::Options& options = {}) {
  auto tuner = ShareTuner::Make(options);
  EXPECT_TRUE(tuner.has_value());
  return *std::move(tuner);
}

// Carries out the whole plan. The number of moves.
std::size_t CarryOut(ShareTuner& tuner, TimePoint now) {
  const ShareTuner::Plan plan = tuner.Decide(now);
  for (const ShareTuner::Move& move : plan.moves) {
    const Status done = tuner.Done(move, now);
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }
  return plan.moves.size();
}

GranuleRange RangeOf(const ShareTuner& tuner, const std::string& model) {
  const auto found = std::ranges::find(tuner.models(), model, &ShareTuner::State::model);
  EXPECT_NE(found, tuner.models().end());
  return found->range.value_or(GranuleRange{});
}

// A load that needs `need` times the share of the model.
ShareLoad Needs(double need) {
  return {.latency_ms = need * 50, .slo_ms = 50, .rows_per_s = 1000, .arrivals_per_s = 1};
}

TEST(ShareTuner, TunesAsInFigure16) {
  ShareTuner tuner = Make();
  ASSERT_TRUE(tuner.Add("vgg19", kUnknownDemand));
  ASSERT_TRUE(tuner.Add("resnet50", kUnknownDemand));
  EXPECT_EQ(CarryOut(tuner, At(0)), 2u);
  EXPECT_EQ(RangeOf(tuner, "vgg19").count, 30u);
  EXPECT_EQ(RangeOf(tuner, "resnet50").count, 30u);
  EXPECT_EQ(CarryOut(tuner, At(1)), 0u);

  const ShareLoad vgg19{.latency_ms = 65, .slo_ms = 50, .rows_per_s = 15, .arrivals_per_s = 35};
  const ShareLoad resnet50{
      .latency_ms = 7.6, .slo_ms = 50, .rows_per_s = 131, .arrivals_per_s = 35};
  ASSERT_TRUE(tuner.Observe("vgg19", vgg19, BatchNotice::kNone));
  ASSERT_TRUE(tuner.Observe("resnet50", resnet50, BatchNotice::kNone));
  const ShareTuner::Plan plan = tuner.Decide(At(2));
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_EQ(plan.moves[0].model, "resnet50");  // makes room, so it moves first
  EXPECT_EQ(plan.moves[0].cause, ShareTuner::Cause::kDemand);
  EXPECT_EQ(CarryOut(tuner, At(2)), 2u);
  EXPECT_EQ(RangeOf(tuner, "vgg19").count, 60u);
  EXPECT_EQ(RangeOf(tuner, "resnet50").count, 8u);
}

TEST(ShareTuner, AModelThatMovedIsHeldForTenSeconds) {
  ShareTuner tuner = Make();
  ASSERT_TRUE(tuner.Add("a", 0.2));
  CarryOut(tuner, At(0));
  ASSERT_TRUE(tuner.Observe("a", Needs(2), BatchNotice::kNone));
  EXPECT_EQ(CarryOut(tuner, At(1)), 1u);
  EXPECT_EQ(RangeOf(tuner, "a").count, 40u);
  ASSERT_TRUE(tuner.Observe("a", Needs(2), BatchNotice::kUnder));
  EXPECT_EQ(CarryOut(tuner, At(10.9)), 0u);
  EXPECT_EQ(CarryOut(tuner, At(11)), 1u);
  EXPECT_EQ(RangeOf(tuner, "a").count, 80u);
}

// Of 60 and 8 % that are needed, all of the device is handed out: 88.2 and 11.8 %.
TEST(ShareTuner, WhatNoModelNeedsIsHandedOutInProportion) {
  ShareTuner tuner = Make({.max_min = {.surplus = MaxMinRules::Surplus::kProportional}});
  ASSERT_TRUE(tuner.Add("vgg19", 0.60));
  ASSERT_TRUE(tuner.Add("resnet50", 0.08));
  CarryOut(tuner, At(0));
  EXPECT_EQ(RangeOf(tuner, "vgg19").count, 88u);
  EXPECT_EQ(RangeOf(tuner, "resnet50").count, 12u);
}

TEST(ShareTuner, TheUtilisationLeavesRoomForArrivals) {
  ShareTuner tuner = Make({.utilisation = 0.8});
  ASSERT_TRUE(tuner.Add("resnet50", 0.30));
  CarryOut(tuner, At(0));
  const ShareLoad load{.latency_ms = 7.6, .slo_ms = 50, .rows_per_s = 131, .arrivals_per_s = 35};
  ASSERT_TRUE(tuner.Observe("resnet50", load, BatchNotice::kNone));
  CarryOut(tuner, At(1));
  EXPECT_EQ(RangeOf(tuner, "resnet50").count, 10u);
}

TEST(ShareTuner, AMissedSloDoublesTheShareEachSecond) {
  ShareTuner tuner = Make({.grow_at_once = true});
  ASSERT_TRUE(tuner.Add("a", 0.1));
  CarryOut(tuner, At(0));
  for (const auto& [second, count] : {std::pair{1, 20u}, {2, 40u}, {3, 80u}}) {
    ASSERT_TRUE(tuner.Observe("a", Needs(3), BatchNotice::kNone));
    EXPECT_EQ(CarryOut(tuner, At(second)), 1u);
    EXPECT_EQ(RangeOf(tuner, "a").count, count);
  }
  ASSERT_TRUE(tuner.Observe("a", Needs(0.5), BatchNotice::kNone));
  EXPECT_EQ(CarryOut(tuner, At(4)), 1u) << "too much is given back";
  EXPECT_EQ(RangeOf(tuner, "a").count, 40u);
  ASSERT_TRUE(tuner.Observe("a", Needs(0.5), BatchNotice::kNone));
  EXPECT_EQ(CarryOut(tuner, At(13.9)), 0u) << "a model that shrank is held";
  ASSERT_TRUE(tuner.Observe("a", Needs(1.5), BatchNotice::kNone));
  EXPECT_EQ(CarryOut(tuner, At(13.9)), 1u) << "but for a missed SLO";
  EXPECT_EQ(RangeOf(tuner, "a").count, 60u);
}

// The loads of `a` come without a missed SLO: only arrivals need more.
TEST(ShareTuner, ArrivalsAloneDoNotEndTheHoldDown) {
  ShareTuner tuner = Make({.grow_at_once = true});
  ASSERT_TRUE(tuner.Add("a", 0.8));
  CarryOut(tuner, At(0));
  ASSERT_TRUE(tuner.Observe("a", Needs(0.5), BatchNotice::kNone));
  CarryOut(tuner, At(1));
  ASSERT_EQ(RangeOf(tuner, "a").count, 40u);
  ShareLoad load = Needs(0.5);
  load.arrivals_per_s = 2000;
  ASSERT_TRUE(tuner.Observe("a", load, BatchNotice::kNone));
  EXPECT_EQ(CarryOut(tuner, At(2)), 0u);
  EXPECT_EQ(CarryOut(tuner, At(11)), 1u);
}

// `b` gives way each second: a move for others is no reason to hold it.
TEST(ShareTuner, AModelThatGaveWayGivesWayAgain) {
  ShareTuner tuner =
      Make({.max_min = {.surplus = MaxMinRules::Surplus::kProportional}, .grow_at_once = true});
  ASSERT_TRUE(tuner.Add("a", 0.1));
  ASSERT_TRUE(tuner.Add("b", 0.4));
  CarryOut(tuner, At(0));
  ASSERT_EQ(RangeOf(tuner, "a").count, 20u);
  for (const auto& [second, count] : {std::pair{1, 50u}, {2, 60u}}) {
    ASSERT_TRUE(tuner.Observe("a", Needs(2), BatchNotice::kNone));
    EXPECT_EQ(CarryOut(tuner, At(second)), 2u);
    EXPECT_EQ(RangeOf(tuner, "a").count, count);
    EXPECT_EQ(RangeOf(tuner, "b").count, 100 - count);
  }
}

TEST(ShareTuner, AChangeOfFivePointsIsTooSmallWithoutANotice) {
  ShareTuner tuner = Make();
  ASSERT_TRUE(tuner.Add("a", 0.2));
  CarryOut(tuner, At(0));
  ASSERT_TRUE(tuner.Observe("a", Needs(1.25), BatchNotice::kNone));
  EXPECT_EQ(CarryOut(tuner, At(1)), 0u);
  ASSERT_TRUE(tuner.Observe("a", Needs(1.25), BatchNotice::kUnder));
  const ShareTuner::Plan plan = tuner.Decide(At(2));
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].cause, ShareTuner::Cause::kNotice);
  CarryOut(tuner, At(2));
  EXPECT_EQ(RangeOf(tuner, "a").count, 25u);
  ASSERT_TRUE(tuner.Observe("a", Needs(1.25), BatchNotice::kNone));  // the notice is used up
  EXPECT_EQ(CarryOut(tuner, At(20)), 1u) << "6.25 points are enough";
}

TEST(ShareTuner, AModelWithoutTrafficIsLeftAlone) {
  ShareTuner tuner = Make();
  ASSERT_TRUE(tuner.Add("quiet", 0.3));
  ASSERT_TRUE(tuner.Add("busy", 0.3));
  CarryOut(tuner, At(0));
  const GranuleRange before = RangeOf(tuner, "quiet");
  ASSERT_TRUE(tuner.Observe("busy", Needs(0.5), BatchNotice::kOver));
  EXPECT_EQ(CarryOut(tuner, At(1)), 1u);
  EXPECT_EQ(RangeOf(tuner, "quiet"), before);
}

TEST(ShareTuner, ANewModelMovesTheOthersEvenInTheirHoldDown) {
  ShareTuner tuner = Make();
  ASSERT_TRUE(tuner.Add("a", 0.5));
  CarryOut(tuner, At(0));
  ASSERT_TRUE(tuner.Observe("a", Needs(2), BatchNotice::kNone));
  CarryOut(tuner, At(1));
  ASSERT_EQ(RangeOf(tuner, "a").count, 100u);
  ASSERT_TRUE(tuner.Add("b", 0.3));
  const ShareTuner::Plan plan = tuner.Decide(At(2));
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_EQ(plan.moves[0].model, "a");
  EXPECT_EQ(plan.moves[1].cause, ShareTuner::Cause::kMembers);
  CarryOut(tuner, At(2));
  EXPECT_EQ(RangeOf(tuner, "a").count, 70u);
  EXPECT_EQ(RangeOf(tuner, "b").count, 30u);

  ASSERT_TRUE(tuner.Remove("b"));
  EXPECT_EQ(CarryOut(tuner, At(3)), 1u);
  EXPECT_EQ(RangeOf(tuner, "a").count, 100u);
}

TEST(ShareTuner, APlanThatFailsHalfwayGoesOnWithTheRest) {
  ShareTuner tuner = Make();
  ASSERT_TRUE(tuner.Add("a", 0.6));
  ASSERT_TRUE(tuner.Add("b", 0.4));
  CarryOut(tuner, At(0));
  ASSERT_TRUE(tuner.Add("c", 0.2));
  const ShareTuner::Plan plan = tuner.Decide(At(1));
  ASSERT_GE(plan.moves.size(), 2u);
  ASSERT_TRUE(tuner.Done(plan.moves[0], At(1)));
  const ShareTuner::Plan rest = tuner.Decide(At(2));
  ASSERT_EQ(rest.moves.size(), plan.moves.size() - 1);
  for (std::size_t i = 0; i < rest.moves.size(); ++i) {
    EXPECT_EQ(rest.moves[i].model, plan.moves[i + 1].model);
    EXPECT_EQ(rest.moves[i].to, plan.moves[i + 1].to);
  }
  CarryOut(tuner, At(2));
  EXPECT_EQ(CarryOut(tuner, At(3)), 0u);
}

TEST(ShareTuner, AFixedModelGetsWhatItDemandsAndIsNotTuned) {
  ShareTuner tuner = Make({.hold_down = seconds(0)});
  ASSERT_TRUE(tuner.Add("fixed", 0.6, /*fixed=*/true));
  ASSERT_TRUE(tuner.Add("a", 0.5));
  ASSERT_TRUE(tuner.Add("b", 0.5));
  CarryOut(tuner, At(0));
  EXPECT_EQ(RangeOf(tuner, "fixed").count, 60u);
  EXPECT_EQ(RangeOf(tuner, "a").count + RangeOf(tuner, "b").count, 40u);
  ASSERT_TRUE(tuner.Observe("fixed", Needs(0.1), BatchNotice::kOver));
  ASSERT_TRUE(tuner.Observe("a", Needs(2), BatchNotice::kNone));
  CarryOut(tuner, At(20));
  EXPECT_EQ(RangeOf(tuner, "fixed").count, 60u) << "however little it needs";

  ASSERT_TRUE(tuner.SetDemand("fixed", 0.25, /*fixed=*/true));
  const ShareTuner::Plan plan = tuner.Decide(At(21));
  ASSERT_FALSE(plan.moves.empty());
  EXPECT_TRUE(std::ranges::any_of(plan.moves, [](const ShareTuner::Move& move) {
    return move.model == "fixed" && move.cause == ShareTuner::Cause::kFixed && move.to.count == 25;
  }));
}

TEST(ShareTuner, FixedSharesThatAreMoreThanTheDeviceAreRefusedAndChangeNothing) {
  ShareTuner tuner = Make({.granules = 4});
  ASSERT_TRUE(tuner.Add("a", 0.5, true));
  const Status too_much = tuner.Add("b", 0.6, true);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(too_much.error().message.find("'b'"), std::string::npos) << too_much.error().message;
  EXPECT_NE(too_much.error().message.find("110"), std::string::npos) << too_much.error().message;
  ASSERT_TRUE(tuner.Add("c", 0.3));
  const Status no_room = tuner.SetDemand("a", 1, true);
  ASSERT_FALSE(no_room) << "a granule for c must be left";
  EXPECT_EQ(tuner.models()[0].demand, 0.5);
  EXPECT_FALSE(tuner.SetDemand("nobody", 0.5, true));
  EXPECT_FALSE(tuner.SetDemand("a", 0, true));
  EXPECT_FALSE(tuner.SetDemand("a", std::numeric_limits<double>::quiet_NaN(), true));
  EXPECT_TRUE(tuner.SetDemand("a", 0.75, true));
}

TEST(ShareTuner, MoreModelsThanGranulesGetWeights) {
  ShareTuner tuner = Make({.granules = 2});
  for (const char* model : {"a", "b", "c"}) ASSERT_TRUE(tuner.Add(model, 0.1));
  ShareTuner::Plan plan = tuner.Decide(At(0));
  EXPECT_TRUE(plan.moves.empty());
  ASSERT_EQ(plan.weights.size(), 3u);
  EXPECT_NEAR(std::accumulate(plan.weights.begin(), plan.weights.end(), 0.0), 1, 1e-12);
  ASSERT_TRUE(tuner.Remove("c"));
  EXPECT_TRUE(tuner.Decide(At(1)).weights.empty());
  EXPECT_EQ(CarryOut(tuner, At(1)), 2u);
  ASSERT_TRUE(tuner.Add("d", 0.1));
  EXPECT_EQ(tuner.Decide(At(2)).weights.size(), 3u);
}

TEST(ShareTuner, AFixedShareThatLeavesNoGranuleForTheLastModelStaysAWeight) {
  ShareTuner tuner = Make({.granules = 2});
  for (const char* model : {"a", "b", "c"}) ASSERT_TRUE(tuner.Add(model, 0.1));
  ASSERT_TRUE(tuner.SetDemand("a", 0.75, true)) << "three models have weights";
  ASSERT_EQ(tuner.Decide(At(0)).weights.size(), 3u);
  ASSERT_TRUE(tuner.Remove("c"));
  EXPECT_EQ(tuner.Decide(At(1)).weights.size(), 2u) << "two granules are too few for 75 % and b";
  ASSERT_TRUE(tuner.SetDemand("a", 0.5, true));
  EXPECT_EQ(CarryOut(tuner, At(2)), 2u);
}

// Random loads, over ten minutes: within the hold-down no model moves, shares never overlap (Done
// refuses it), and every model has a share.
TEST(ShareTuner, NoModelMovesWithinTheHoldDown) {
  Random random(11);
  for (int draw = 0; draw < 50; ++draw) {
    ShareTuner tuner =
        Make({.granules = 10 + random.Below(90),
              .max_min = {.surplus = draw % 2 == 0 ? MaxMinRules::Surplus::kNone
                                                   : MaxMinRules::Surplus::kProportional}});
    const std::vector<std::string> models = {"a", "b", "c", "d", "e"};
    for (const std::string& model : models) {
      ASSERT_TRUE(tuner.Add(model, random.Uniform(0.05, 0.5)));
    }
    CarryOut(tuner, At(0));
    ASSERT_EQ(CarryOut(tuner, At(0)), 0u);
    std::map<std::string, TimePoint> moved;
    int moves = 0;
    for (int second = 1; second < 600; ++second) {
      for (const std::string& model : models) {
        const auto notice = static_cast<BatchNotice>(random.Below(3));
        ASSERT_TRUE(tuner.Observe(model, Needs(random.Uniform(0.2, 3)), notice));
      }
      for (const ShareTuner::Move& move : tuner.Decide(At(second)).moves) {
        ASSERT_TRUE(tuner.Done(move, At(second)));
        if (moved.contains(move.model)) {
          ASSERT_GE(At(second) - moved[move.model], seconds(10));
        }
        moved[move.model] = At(second);
        ++moves;
      }
      for (const ShareTuner::State& state : tuner.models()) ASSERT_TRUE(state.range);
    }
    EXPECT_GT(moves, 60);
  }
}

TEST(ShareTuner, HostileValuesAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(ShareTuner::Make({.granules = 0}));
  EXPECT_FALSE(ShareTuner::Make({.granules = 5000}));
  EXPECT_FALSE(ShareTuner::Make({.trigger = nan}));
  EXPECT_FALSE(ShareTuner::Make({.trigger = -1}));
  EXPECT_FALSE(ShareTuner::Make({.hold_down = Nanoseconds(-1)}));
  EXPECT_FALSE(ShareTuner::Make({.hold_down = Nanoseconds::max()}));
  for (const double bad : {nan, 0.0, -1.0, 1.5}) {
    EXPECT_FALSE(ShareTuner::Make({.utilisation = bad})) << bad;
  }

  ShareTuner tuner = Make();
  for (const double bad : {nan, 0.0, -1.0, 1.5}) EXPECT_FALSE(tuner.Add("a", bad));
  ASSERT_TRUE(tuner.Add("a", 0.5));
  EXPECT_EQ(tuner.Add("a", 0.5).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(tuner.Remove("b").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(tuner.Observe("b", Needs(1), BatchNotice::kNone).error().message,
            "no model 'b' on this device");
  EXPECT_EQ(tuner.Observe("a", Needs(nan), BatchNotice::kNone).error().message,
            "model 'a': latency_ms is nan, must be from 0 to 1000000000");
  EXPECT_EQ(CarryOut(tuner, At(0)), 1u);

  ASSERT_TRUE(tuner.Add("b", 0.5));
  EXPECT_FALSE(tuner.Done({"b", {}, {0, 0}}, At(1)));
  EXPECT_FALSE(tuner.Done({"b", {}, {50, 51}}, At(1)));
  EXPECT_FALSE(tuner.Done({"b", {}, {4'000'000'000, 4'000'000'000}}, At(1)));
  EXPECT_EQ(tuner.Done({"b", {}, {49, 10}}, At(1)).error().message,
            "model 'b': moved to 10 granules from 49 on, which overlap those of 'a'");
  EXPECT_FALSE(tuner.Done({"c", {}, {0, 1}}, At(1)));
}

}  // namespace
}  // namespace lagoon
