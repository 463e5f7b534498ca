#include "serving/shares/share_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <thread>
#include <utility>

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Writes down what it is told, and says what a test wants.
class FakeHost final : public ShareHost {
 public:
  Status Move(std::size_t model, UnitRange units) override {
    if (on_move) on_move();
    if (fails) return Fail(ErrorCode::kUnavailable, "the device is busy");
    moves.emplace_back(model, units);
    return {};
  }
  Status SetWeight(std::size_t model, double weight) override {
    weights[model] = weight;
    return {};
  }
  LoadReading ReadLoad(std::size_t model, TimePoint) override { return loads[model]; }
  void ForgetTimes(std::size_t model) override { ++forgotten[model]; }
  BatchNotice TakeNotice(std::size_t model) override {
    return std::exchange(notices[model], BatchNotice::kNone);
  }
  std::int64_t MostRows(std::size_t) const override { return 0; }
  void OnChange(std::size_t model, const ShareChange& change, UnitRange units) override {
    changes.push_back({model, change, units});
  }

  struct Change {
    std::size_t model;
    ShareChange change;
    UnitRange units;
  };

  bool fails = false;
  std::function<void()> on_move;
  std::vector<std::pair<std::size_t, UnitRange>> moves;
  std::map<std::size_t, double> weights;
  std::map<std::size_t, LoadReading> loads;
  std::map<std::size_t, int> forgotten;
  std::map<std::size_t, BatchNotice> notices;
  std::vector<Change> changes;
};

TimePoint At(double second) {
  return TimePoint(milliseconds(static_cast<std::int64_t>(second * 1000)));
}

SharedModel Auto(const std::string& name, Nanoseconds slo = {}) {
  return {name, "1", {.automatic = true, .fixed = {}, .weight = {}}, slo, SloOf::kBatch};
}
SharedModel Fixed(const std::string& name, double part) {
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

class ShareManagerTest : public ::testing::Test {
 protected:
  void Make(std::vector<SharedModel> models, const ShareManagerOptions& options = {.units = 100}) {
    auto made = ShareManager::Make(options, host_);
    ASSERT_TRUE(made) << made.error().message;
    manager_ = *std::move(made);
    const Status replaced = Replace({}, std::move(models));
    ASSERT_TRUE(replaced) << replaced.error().message;
  }
  /// The models get the next ids, from 0 on.
  Status Replace(const std::vector<std::size_t>& gone, std::vector<SharedModel> come) {
    for (SharedModel& model : come) model.id = next_id_++;
    return manager_->Replace(gone, std::move(come), At(0));
  }
  ModelShare Of(std::size_t model) { return manager_->Read().models[model]; }

  FakeHost host_;
  std::unique_ptr<ShareManager> manager_;
  std::size_t next_id_ = 0;
};

// Fig. 16 of the paper: 30 and 30 % become 60 and 8 %.
TEST_F(ShareManagerTest, FollowsTheLoadsAsInFigure16) {
  Make({Auto("vgg19", milliseconds(50)), Auto("resnet50", milliseconds(50))});
  EXPECT_EQ(Of(0).units.count, 30u);
  EXPECT_EQ(Of(1).units.count, 30u);
  manager_->Step(At(1));
  EXPECT_EQ(host_.moves.size(), 2u) << "nothing is known of models without traffic";
  host_.loads[0] = Load(65, 15, 35);
  host_.loads[1] = Load(8, 131, 35);
  manager_->Step(At(2));
  EXPECT_EQ(Of(0).units.count, 60u);
  EXPECT_EQ(Of(1).units.count, 8u);
  EXPECT_EQ(Of(0).moves, 1u);
  EXPECT_EQ(host_.forgotten[0], 2) << "the first share, and the move";
  ASSERT_TRUE(Of(0).last);
  EXPECT_NE(Of(0).last->why.find("35 rows arrive a second"), std::string::npos) << Of(0).last->why;
  ASSERT_EQ(host_.changes.size(), 4u) << "the first shares, and the moves";
  const auto change = std::ranges::find_if(
      host_.changes, [](const auto& one) { return one.model == 0 && one.change.from > 0; });
  ASSERT_NE(change, host_.changes.end());
  EXPECT_EQ(change->change.from, 0.3);
  EXPECT_EQ(change->change.to, 0.6);
  EXPECT_EQ(change->change.why, Of(0).last->why);
  EXPECT_EQ(change->change.at, At(2));
  EXPECT_EQ(change->units, Of(0).units);
}

TEST_F(ShareManagerTest, NoModelMovesTwiceWithinTheHoldDown) {
  Make({Auto("a", milliseconds(50))});
  host_.loads[0] = Load(100, 15, 15);
  manager_->Step(At(1));
  const std::size_t moves = host_.moves.size();
  for (double second = 2; second < 11; ++second) manager_->Step(At(second));
  EXPECT_EQ(host_.moves.size(), moves);
  manager_->Step(At(11.1));
  EXPECT_EQ(host_.moves.size(), moves + 1);
}

TEST_F(ShareManagerTest, AnIdleModelAndOneWithoutCapacityAreLeftAlone) {
  Make({Auto("idle"), Auto("unknown", milliseconds(50)), Auto("never answered", milliseconds(50))});
  const std::size_t moves = host_.moves.size();
  host_.loads[1].arrivals_per_s = 1000;
  host_.loads[2] = Load(1, 10, 1000);
  host_.loads[2].batch_ms.reset();
  manager_->Step(At(1));
  EXPECT_EQ(host_.moves.size(), moves);
}

TEST_F(ShareManagerTest, AHostBoundModelGetsNoLargerShare) {
  Make({Auto("a")});
  host_.loads[0] = Load(1, 10, 1000);
  host_.loads[0].bottleneck = Bottleneck::kHost;
  manager_->Step(At(1));
  EXPECT_EQ(Of(0).units.count, 30u);
}

TEST_F(ShareManagerTest, AMoveThatFailsIsTriedAgain) {
  Make({Auto("a")});
  host_.loads[0] = Load(1, 10, 1000);
  host_.fails = true;
  manager_->Step(At(1));
  EXPECT_EQ(Of(0).units.count, 30u);
  EXPECT_EQ(Of(0).share, 0.3) << "the report says what is";
  host_.fails = false;
  manager_->Step(At(2));
  EXPECT_EQ(Of(0).units.count, 60u);
}

TEST_F(ShareManagerTest, TuningCanBeSwitchedOff) {
  Make({Auto("a")});
  ASSERT_TRUE(manager_->SetRules({.tuning = false, .trigger = {}, .hold_down = {}}, At(0)));
  host_.loads[0] = Load(1, 10, 1000);
  manager_->Step(At(1));
  EXPECT_EQ(Of(0).units.count, 30u);
  EXPECT_FALSE(manager_->Read().tuning);
  const Status wrong = manager_->SetRules({.tuning = true, .trigger = 2, .hold_down = {}}, At(1));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("trigger is 2"), std::string::npos) << wrong.error().message;
  EXPECT_FALSE(manager_->Read().tuning) << "nothing changes";
}

TEST_F(ShareManagerTest, ResizingFixesAShareAtOnce) {
  Make({Auto("a"), {"free", "1", {}}});
  EXPECT_FALSE(Of(1).share);
  ASSERT_TRUE(manager_->Resize(0, {.units = 45, .part = {}}, At(1)));
  EXPECT_EQ(Of(0).units.count, 45u);
  EXPECT_TRUE(Of(0).fixed);
  EXPECT_EQ(Of(0).last->why, "it was set by an operator");
  ASSERT_TRUE(manager_->Resize(1, {.units = {}, .part = 0.2}, At(1)));
  EXPECT_EQ(Of(1).units.count, 20u);
  ASSERT_TRUE(manager_->Resize(0, {.units = {}, .part = {}, .automatic = true}, At(2)));
  EXPECT_EQ(Of(0).units.count, 45u) << "starts from what it has";
  EXPECT_FALSE(Of(0).fixed);
}

TEST_F(ShareManagerTest, HostileSizesAreRefusedAndChangeNothing) {
  Make({Fixed("a", 0.5), Fixed("b", 0.25)}, {.units = 16, .granule = 4});
  const std::size_t moves = host_.moves.size();
  for (const std::uint32_t units : {0u, 3u, 17u, ~0u}) {
    const Status wrong = manager_->Resize(0, {.units = units, .part = {}}, At(1));
    ASSERT_FALSE(wrong) << units;
    EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  }
  for (const double part : {0.0, -1.0, 1.5, 0.9}) {
    EXPECT_FALSE(manager_->Resize(0, {.units = {}, .part = part}, At(1))) << part;
  }
  EXPECT_EQ(host_.moves.size(), moves);
  EXPECT_EQ(Of(0).units.count, 8u);
}

TEST_F(ShareManagerTest, TheLastGranuleMayBeSmaller) {
  Make({Fixed("a", 1)}, {.units = 10, .granule = 4});
  EXPECT_EQ(Of(0).units, (UnitRange{0, 10}));
}

TEST_F(ShareManagerTest, FixedSharesThatAreTooMuchAreRefusedByName) {
  Make({});
  const Status refused = Replace({}, {Fixed("a", 0.6), Fixed("b", 0.5)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("b/1"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(host_.moves.empty());
  EXPECT_TRUE(manager_->Read().models.empty());
}

TEST_F(ShareManagerTest, ModelsComeAndGoWhileTheOthersKeepWhatTheyHave) {
  Make({Auto("a"), Fixed("b", 0.2)});
  ASSERT_TRUE(manager_->Resize(0, {.units = 45, .part = {}}, At(1)));
  ASSERT_TRUE(Replace({1}, {Fixed("b", 0.4)}));  // another version of it
  ASSERT_EQ(manager_->Read().models.size(), 2u);
  EXPECT_EQ(Of(0).units.count, 45u) << "an operator's size stays";
  EXPECT_EQ(Of(1).units.count, 40u);
  const Status refused = Replace({2}, {Fixed("b", 0.6)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  ASSERT_EQ(manager_->Read().models.size(), 2u);
  EXPECT_EQ(Of(0).units.count, 45u);
  EXPECT_EQ(Of(1).units.count, 40u) << "what was there stays";
  ASSERT_TRUE(Replace({0}, {}));
  ASSERT_EQ(manager_->Read().models.size(), 1u);
  EXPECT_EQ(Of(0).model, "b");
  host_.moves.clear();
  manager_->Step(At(2));
  for (const auto& [model, units] : host_.moves) EXPECT_EQ(model, 2u) << "the others are gone";
  EXPECT_FALSE(manager_->Resize(0, {.units = 1, .part = {}}, At(3)));
}

TEST_F(ShareManagerTest, ANewModelThatCannotMoveIsRefusedAndOneThatGoesIsNot) {
  Make({Fixed("a", 0.5)});
  host_.fails = true;
  EXPECT_FALSE(Replace({}, {Fixed("b", 0.5)}));
  EXPECT_EQ(manager_->Read().models.size(), 1u);
  EXPECT_TRUE(Replace({0}, {}));
  EXPECT_TRUE(manager_->Read().models.empty());
}

// A move may take as long as a thread of low priority needs for a plan.
TEST_F(ShareManagerTest, ReadersDoNotWaitForMoves) {
  Make({Fixed("a", 0.5)});
  std::promise<void> moving, go;
  host_.on_move = [&] {
    moving.set_value();
    go.get_future().wait();
  };
  std::jthread mover([&] { EXPECT_TRUE(manager_->Resize(0, {.units = 10, .part = {}}, At(1))); });
  moving.get_future().wait();
  EXPECT_EQ(Of(0).units.count, 50u);
  go.set_value();
  mover.join();
  EXPECT_EQ(Of(0).units.count, 10u);
}

TEST_F(ShareManagerTest, MoreModelsThanUnitsGetWeights) {
  Make({Fixed("a", 0.5), Auto("b"), Auto("c")}, {.units = 2});
  EXPECT_NEAR(host_.weights[0], 0.5, 1e-9);
  EXPECT_NEAR(host_.weights[1], 0.25, 1e-9);
  EXPECT_NEAR(host_.weights[2], 0.25, 1e-9);
  for (const auto& [model, units] : host_.moves) EXPECT_EQ(units.count, 0u) << model;
  EXPECT_NE(Of(0).last->why.find("3 models need more than the 2 granules"), std::string::npos)
      << Of(0).last->why;
  const std::size_t moves = host_.moves.size();
  manager_->Step(At(1));
  EXPECT_EQ(host_.moves.size(), moves) << "nothing has changed";
}

TEST_F(ShareManagerTest, WeightsMayBeTheSharesThemselves) {
  Make({Auto("a", milliseconds(50))}, {.kind = ShareKind::kWeight, .units = 2});
  EXPECT_NEAR(host_.weights[0], 0.3, 1e-9);
  host_.loads[0] = Load(100, 15, 15);
  manager_->Step(At(1));
  EXPECT_NEAR(host_.weights[0], 0.6, 1e-9);
  EXPECT_TRUE(host_.moves.empty());
  EXPECT_FALSE(manager_->Resize(0, {.units = 1, .part = {}}, At(2)));
  EXPECT_TRUE(manager_->Resize(0, {.units = {}, .part = 0.5}, At(2)));
  EXPECT_NEAR(host_.weights[0], 0.5, 1e-9);
}

}  // namespace
}  // namespace lagoon
