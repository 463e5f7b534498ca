#include "serving/shares/share_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "trace/recorder.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Writes down what it is told, and says what a test wants.
class FakeModel final : public SharedModel {
 public:
  /// `fails`: whether moves fail.
  FakeModel(Terms wanted, const bool& fails) : terms(std::move(wanted)), fails_(fails) {}
  Terms ShareTerms() const override { return terms; }
  Status MoveShare(UnitRange units) override {
    if (on_move) on_move();
    if (fails_) return Fail(ErrorCode::kUnavailable, "the device is busy");
    moves.push_back(units);
    return {};
  }
  Status SetWeight(double wanted) override {
    weight = wanted;
    return {};
  }
  LoadReading ReadLoad(TimePoint) override { return load; }
  void ForgetTimes() override { ++forgotten; }
  BatchNotice TakeNotice() override { return std::exchange(notice, BatchNotice::kNone); }
  std::int64_t MostRows() const override { return 0; }
  void LimitRows(std::int64_t rows) override { ceiling = rows; }

  const Terms terms;
  std::function<void()> on_move;
  std::vector<UnitRange> moves;
  double weight = 0;
  LoadReading load;
  int forgotten = 0;
  std::int64_t ceiling = -1;
  BatchNotice notice = BatchNotice::kNone;

 private:
  const bool& fails_;
};

TimePoint At(double second) {
  return TimePoint(milliseconds(static_cast<std::int64_t>(second * 1000)));
}

SharedModel::Terms Auto(const std::string& name, Nanoseconds slo = {}) {
  return {name, "1", {.automatic = true, .fixed = {}, .weight = {}}, slo, SloOf::kBatch};
}
SharedModel::Terms Fixed(const std::string& name, double part) {
  return {name, "1", {.automatic = false, .fixed = part, .weight = {}}};
}

LoadReading Load(double batch_ms, double rows_per_s, double arrivals_per_s) {
  LoadReading load;
  load.batch_ms = batch_ms;
  load.rows_per_s = rows_per_s;
  load.arrivals_per_s = arrivals_per_s;
  load.bottleneck = Bottleneck::kDevice;
  return load;
}

/// Tunes as in the paper, so that a share that is not full stays as it is.
constexpr ShareKeeper::Options kPaper{
    .units = 100, .utilisation = 1, .surplus = MaxMinRules::Surplus::kNone, .grow_at_once = false};

class ShareKeeperTest : public ::testing::Test {
 protected:
  void Make(std::vector<SharedModel::Terms> models, ShareKeeper::Options options = kPaper) {
    options.trace = &recorder_;
    auto made = ShareKeeper::Make(options);
    ASSERT_TRUE(made) << made.error().message;
    keeper_ = *std::move(made);
    const Status replaced = Replace({}, std::move(models));
    ASSERT_TRUE(replaced) << replaced.error().message;
  }
  /// The models get the next numbers, from 0 on, and stay when they are gone.
  Status Replace(const std::vector<std::size_t>& gone, std::vector<SharedModel::Terms> come) {
    std::vector<SharedModel*> left, added;
    for (const std::size_t model : gone) left.push_back(&models_[model]);
    for (SharedModel::Terms& terms : come) {
      added.push_back(&models_.emplace_back(std::move(terms), fails_));
    }
    return keeper_->Replace(left, added, At(0));
  }
  Status Resize(std::size_t model, const ShareWanted& wanted, TimePoint now) {
    return keeper_->Resize(models_[model], wanted, now);
  }
  ModelShare Of(std::size_t row) { return keeper_->Read().models[row]; }
  std::size_t Moves() const {
    std::size_t moves = 0;
    for (const FakeModel& model : models_) moves += model.moves.size();
    return moves;
  }

  bool fails_ = false;  // moves of all models
  std::deque<FakeModel> models_;
  TraceRecorder recorder_{TraceOptions{.max_blocks = 1, .max_events = 1}};
  std::unique_ptr<ShareKeeper> keeper_;
};

// Fig. 16 of the paper: 30 and 30 % become 60 and 8 %.
TEST_F(ShareKeeperTest, FollowsTheLoadsAsInFigure16) {
  Make({Auto("vgg19", milliseconds(50)), Auto("resnet50", milliseconds(50))});
  EXPECT_EQ(Of(0).units.count, 30u);
  EXPECT_EQ(Of(1).units.count, 30u);
  keeper_->Step(At(1));
  EXPECT_EQ(Moves(), 2u) << "nothing is known of models without traffic";
  models_[0].load = Load(65, 15, 35);
  models_[1].load = Load(8, 131, 35);
  keeper_->Step(At(2));
  EXPECT_EQ(Of(0).units.count, 60u);
  EXPECT_EQ(Of(1).units.count, 8u);
  EXPECT_EQ(Of(0).moves, 1u);
  EXPECT_EQ(models_[0].forgotten, 2) << "the first share, and the move";
  ASSERT_TRUE(Of(0).last);
  EXPECT_NE(Of(0).last->why.find("35 rows arrive a second"), std::string::npos) << Of(0).last->why;
  const auto notes = recorder_.share_notes();
  ASSERT_EQ(notes.size(), 4u) << "the first shares, and the moves";
  const auto note = std::ranges::find_if(
      notes, [](const auto& one) { return one.model == "vgg19" && one.from > 0; });
  ASSERT_NE(note, notes.end());
  EXPECT_EQ(note->from, 0.3);
  EXPECT_EQ(note->to, 0.6);
  EXPECT_EQ(note->why, Of(0).last->why);
  EXPECT_EQ(note->at, At(2));
  EXPECT_EQ(note->units, Of(0).units);
}

// What a server does: a fifth to spare, nothing idle, and no wait for a missed SLO.
TEST_F(ShareKeeperTest, AServerHandsOutTheSurplusAndGrowsAtOnce) {
  Make({Auto("vgg19", milliseconds(50)), Auto("resnet50", milliseconds(50))}, {.units = 100});
  EXPECT_EQ(Of(0).units.count, 50u);
  EXPECT_EQ(Of(0).demand, 0.3);
  EXPECT_EQ(Of(0).demand_from, DemandFrom::kDefault);
  models_[0].load = Load(100, 150, 35);
  models_[1].load = Load(8, 131, 35);  // needs 0.334 of its 50 %
  keeper_->Step(At(1));
  EXPECT_EQ(Of(0).demand, 1) << "twice what it had";
  EXPECT_NEAR(Of(1).demand, 0.167, 0.001);
  EXPECT_EQ(Of(0).demand_from, DemandFrom::kLoad);
  EXPECT_EQ(Of(0).units.count, 83u);
  EXPECT_EQ(Of(1).units.count, 17u);
  models_[0].load = Load(60, 150, 35);
  models_[1].load = Load(8, 131, 100);
  keeper_->Step(At(2));
  EXPECT_EQ(Of(0).moves, 1u) << "no more room: the other one is held, as it shrank";
}

TEST_F(ShareKeeperTest, AStoredKneeIsTheFirstDemand) {
  SharedModel::Terms known = Auto("vgg19");
  known.knee = 0.7;
  SharedModel::Terms fixed = Fixed("fixed", 0.1);
  fixed.knee = 0.5;
  Make({known, Auto("new"), fixed});
  EXPECT_EQ(Of(0).demand, 0.7);
  EXPECT_EQ(Of(0).demand_from, DemandFrom::kSurface);
  EXPECT_EQ(Of(1).demand, 0.3);
  EXPECT_EQ(Of(1).demand_from, DemandFrom::kDefault);
  EXPECT_EQ(Of(2).demand, 0.1);
  EXPECT_EQ(Of(2).demand_from, DemandFrom::kFixed);
}

TEST_F(ShareKeeperTest, NoModelMovesTwiceWithinTheHoldDown) {
  Make({Auto("a", milliseconds(50))});
  models_[0].load = Load(100, 15, 15);
  keeper_->Step(At(1));
  const std::size_t moves = Moves();
  for (double second = 2; second < 11; ++second) keeper_->Step(At(second));
  EXPECT_EQ(Moves(), moves);
  keeper_->Step(At(11.1));
  EXPECT_EQ(Moves(), moves + 1);
}

TEST_F(ShareKeeperTest, AnIdleModelAndOneWithoutCapacityAreLeftAlone) {
  Make({Auto("idle"), Auto("unknown", milliseconds(50)), Auto("never answered", milliseconds(50))});
  const std::size_t moves = Moves();
  models_[1].load.arrivals_per_s = 1000;
  models_[2].load = Load(1, 10, 1000);
  models_[2].load.batch_ms.reset();
  keeper_->Step(At(1));
  EXPECT_EQ(Moves(), moves);
}

TEST_F(ShareKeeperTest, AHostBoundModelGetsNoLargerShare) {
  Make({Auto("a")});
  models_[0].load = Load(1, 10, 1000);
  models_[0].load.bottleneck = Bottleneck::kHost;
  keeper_->Step(At(1));
  EXPECT_EQ(Of(0).units.count, 30u);
}

TEST_F(ShareKeeperTest, AMoveThatFailsIsTriedAgain) {
  Make({Auto("a")});
  models_[0].load = Load(1, 10, 1000);
  fails_ = true;
  keeper_->Step(At(1));
  EXPECT_EQ(Of(0).units.count, 30u);
  EXPECT_EQ(Of(0).share, 0.3) << "the report says what is";
  fails_ = false;
  keeper_->Step(At(2));
  EXPECT_EQ(Of(0).units.count, 60u);
}

TEST_F(ShareKeeperTest, TuningCanBeSwitchedOff) {
  Make({Auto("a")});
  ASSERT_TRUE(keeper_->SetRules({.tuning = false, .trigger = {}, .hold_down = {}}, At(0)));
  models_[0].load = Load(1, 10, 1000);
  keeper_->Step(At(1));
  EXPECT_EQ(Of(0).units.count, 30u);
  EXPECT_FALSE(keeper_->Read().tuning);
  const Status wrong = keeper_->SetRules({.tuning = true, .trigger = 2, .hold_down = {}}, At(1));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("trigger is 2"), std::string::npos) << wrong.error().message;
  EXPECT_FALSE(keeper_->Read().tuning) << "nothing changes";
}

TEST_F(ShareKeeperTest, ResizingFixesAShareAtOnce) {
  Make({Auto("a"), {"free", "1", {}}});
  EXPECT_FALSE(Of(1).share);
  ASSERT_TRUE(Resize(0, {.units = 45, .part = {}}, At(1)));
  EXPECT_EQ(Of(0).units.count, 45u);
  EXPECT_TRUE(Of(0).fixed);
  EXPECT_EQ(Of(0).last->why, "an operator or the placer of its fleet set it");
  ASSERT_TRUE(Resize(1, {.units = {}, .part = 0.2}, At(1)));
  EXPECT_EQ(Of(1).units.count, 20u);
  ASSERT_TRUE(Resize(0, {.units = {}, .part = {}, .automatic = true}, At(2)));
  EXPECT_EQ(Of(0).units.count, 45u) << "starts from what it has";
  EXPECT_FALSE(Of(0).fixed);
}

TEST_F(ShareKeeperTest, AShareCanBeTakenAway) {
  Make({Fixed("a", 0.6), Auto("b"), {"free", "1", {}}});
  models_[1].load = Load(1, 10, 20);
  keeper_->Step(At(1));
  ASSERT_EQ(Of(1).units.count, 40u) << "there is no more room";
  ASSERT_TRUE(Resize(2, {.none = true}, At(2))) << "has none";
  ASSERT_TRUE(Resize(0, {.none = true}, At(12)));
  EXPECT_EQ(models_[0].moves.back(), UnitRange{}) << "all of the device";
  EXPECT_FALSE(Of(0).share);
  EXPECT_FALSE(Of(0).fixed);
  EXPECT_EQ(Of(0).units.count, 0u);
  EXPECT_EQ(Of(0).last->why, "it was taken away by an operator");
  EXPECT_EQ(Of(0).last->to, 0);
  EXPECT_EQ(recorder_.share_notes().back().to, Of(1).last->to) << "then others got room";
  EXPECT_EQ(Of(1).units.count, 60u);
  ASSERT_TRUE(Resize(0, {.part = 0.4}, At(13))) << "it can have one again";
  EXPECT_EQ(Of(0).units.count, 40u);
}

TEST_F(ShareKeeperTest, AModelWhoseShareCannotBeTakenAwayKeepsIt) {
  Make({Fixed("a", 0.6)});
  fails_ = true;
  EXPECT_FALSE(Resize(0, {.none = true}, At(1)));
  EXPECT_EQ(Of(0).share, 0.6);
  fails_ = false;
  EXPECT_TRUE(Resize(0, {.none = true}, At(2)));
  EXPECT_FALSE(Of(0).share);
}

TEST_F(ShareKeeperTest, AModelWithoutAShareHasItsOwnWeightAgain) {
  Make({{"a", "1", {.automatic = false, .fixed = {}, .weight = 3}}, Fixed("b", 0.2)},
       {.kind = ShareKind::kWeight});
  for (const std::size_t model : {0u, 1u}) {
    ASSERT_TRUE(Resize(model, {.part = 0.5}, At(1)));
    EXPECT_NEAR(models_[model].weight, 0.5, 1e-9);
    ASSERT_TRUE(Resize(model, {.none = true}, At(2)));
  }
  EXPECT_EQ(models_[0].weight, 3);
  EXPECT_EQ(models_[1].weight, 1);
  EXPECT_EQ(Moves(), 0u);
}

TEST_F(ShareKeeperTest, HostileSizesAreRefusedAndChangeNothing) {
  Make({Fixed("a", 0.5), Fixed("b", 0.25)}, {.units = 16, .granule = 4});
  const std::size_t moves = Moves();
  for (const std::uint32_t units : {0u, 3u, 17u, ~0u}) {
    const Status wrong = Resize(0, {.units = units, .part = {}}, At(1));
    ASSERT_FALSE(wrong) << units;
    EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  }
  for (const double part : {0.0, -1.0, 1.5, 0.9}) {
    EXPECT_FALSE(Resize(0, {.units = {}, .part = part}, At(1))) << part;
  }
  EXPECT_EQ(Moves(), moves);
  EXPECT_EQ(Of(0).units.count, 8u);
}

TEST_F(ShareKeeperTest, TheLastGranuleMayBeSmaller) {
  Make({Fixed("a", 1)}, {.units = 10, .granule = 4});
  EXPECT_EQ(Of(0).units, (UnitRange{0, 10}));
}

TEST_F(ShareKeeperTest, FixedSharesThatAreTooMuchAreRefusedByName) {
  Make({});
  const Status refused = Replace({}, {Fixed("a", 0.6), Fixed("b", 0.5)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("b/1"), std::string::npos) << refused.error().message;
  EXPECT_EQ(Moves(), 0u);
  EXPECT_TRUE(keeper_->Read().models.empty());
}

TEST_F(ShareKeeperTest, ModelsComeAndGoWhileTheOthersKeepWhatTheyHave) {
  Make({Auto("a"), Fixed("b", 0.2)});
  ASSERT_TRUE(Resize(0, {.units = 45, .part = {}}, At(1)));
  ASSERT_TRUE(Replace({1}, {Fixed("b", 0.4)}));  // another version of it
  ASSERT_EQ(keeper_->Read().models.size(), 2u);
  EXPECT_EQ(Of(0).units.count, 45u) << "an operator's size stays";
  EXPECT_EQ(Of(1).units.count, 40u);
  const Status refused = Replace({2}, {Fixed("b", 0.6)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  ASSERT_EQ(keeper_->Read().models.size(), 2u);
  EXPECT_EQ(Of(0).units.count, 45u);
  EXPECT_EQ(Of(1).units.count, 40u) << "what was there stays";
  ASSERT_TRUE(Replace({0}, {}));
  ASSERT_EQ(keeper_->Read().models.size(), 1u);
  EXPECT_EQ(Of(0).model, "b");
  const std::size_t moves = Moves() - models_[2].moves.size();
  keeper_->Step(At(2));
  EXPECT_EQ(Moves() - models_[2].moves.size(), moves) << "the others are gone";
  EXPECT_EQ(Resize(0, {.units = 1, .part = {}}, At(3)).error().code, ErrorCode::kUnavailable);
}

TEST_F(ShareKeeperTest, ANewModelThatCannotMoveIsRefusedAndOneThatGoesIsNot) {
  Make({Fixed("a", 0.5)});
  fails_ = true;
  EXPECT_FALSE(Replace({}, {Fixed("b", 0.5)}));
  EXPECT_EQ(keeper_->Read().models.size(), 1u);
  EXPECT_TRUE(Replace({0}, {}));
  EXPECT_TRUE(keeper_->Read().models.empty());
}

// A move may take as long as a thread of low priority needs for a plan.
TEST_F(ShareKeeperTest, ReadersDoNotWaitForMoves) {
  Make({Fixed("a", 0.5)});
  std::promise<void> moving, go;
  models_[0].on_move = [&] {
    moving.set_value();
    go.get_future().wait();
  };
  std::jthread mover([&] { EXPECT_TRUE(Resize(0, {.units = 10, .part = {}}, At(1))); });
  moving.get_future().wait();
  EXPECT_EQ(Of(0).units.count, 50u);
  go.set_value();
  mover.join();
  EXPECT_EQ(Of(0).units.count, 10u);
}

TEST_F(ShareKeeperTest, MoreModelsThanUnitsGetWeights) {
  Make({Fixed("a", 0.5), Auto("b"), Auto("c")}, {.units = 2});
  EXPECT_NEAR(models_[0].weight, 0.5, 1e-9);
  EXPECT_NEAR(models_[1].weight, 0.25, 1e-9);
  EXPECT_NEAR(models_[2].weight, 0.25, 1e-9);
  for (const FakeModel& model : models_) {
    for (const UnitRange& units : model.moves) EXPECT_EQ(units.count, 0u) << model.terms.name;
  }
  EXPECT_NE(Of(0).last->why.find("3 models need more than the 2 granules"), std::string::npos)
      << Of(0).last->why;
  const std::size_t moves = Moves();
  keeper_->Step(At(1));
  EXPECT_EQ(Moves(), moves) << "nothing has changed";
}

TEST_F(ShareKeeperTest, WeightsMayBeTheSharesThemselves) {
  Make({Auto("a", milliseconds(50))},
       {.kind = ShareKind::kWeight, .units = 2, .surplus = MaxMinRules::Surplus::kNone});
  EXPECT_NEAR(models_[0].weight, 0.3, 1e-9);
  models_[0].load = Load(100, 15, 15);
  keeper_->Step(At(1));
  EXPECT_NEAR(models_[0].weight, 0.6, 1e-9);
  EXPECT_EQ(Moves(), 0u);
  EXPECT_FALSE(Resize(0, {.units = 1, .part = {}}, At(2)));
  EXPECT_TRUE(Resize(0, {.units = {}, .part = 0.5}, At(2)));
  EXPECT_NEAR(models_[0].weight, 0.5, 1e-9);
}

TEST_F(ShareKeeperTest, AResizeSetsTheLimitOfBatches) {
  Make({Auto("a"), Auto("b")});
  EXPECT_EQ(models_[0].ceiling, -1);
  ASSERT_TRUE(Resize(0, {.part = 0.5, .rows = 4}, At(1)));
  EXPECT_EQ(models_[0].ceiling, 4);
  EXPECT_EQ(Of(0).ceiling, 4);
  EXPECT_FALSE(Resize(0, {.part = 1.5, .rows = 8}, At(1)));
  EXPECT_EQ(models_[0].ceiling, 4) << "nothing has changed";
  ASSERT_TRUE(Resize(0, {.automatic = true}, At(2)));
  EXPECT_EQ(models_[0].ceiling, 0);
  EXPECT_EQ(models_[1].ceiling, -1);
}

}  // namespace
}  // namespace lagoon
