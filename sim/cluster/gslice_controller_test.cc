#include "sim/cluster/gslice_controller.h"

#include <gtest/gtest.h>

#include <deque>

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A request takes `ms` on the whole device, and ms / share on a share.
const Surface& Takes(double ms) {
  static std::deque<Surface> kept;
  kept.push_back(
      *Surface::FromFormula({.base_ms = ms, .row_ms = 0, .fixed = 0, .knee = 1, .growth = 0}));
  return kept.back();
}

ModelSpec ModelOf(const std::string& name, double ms, double per_second) {
  ModelSpec model;
  model.name = name;
  model.surface = &Takes(ms);
  model.arrivals.kind = ArrivalKind::kPeriodic;
  model.arrivals.rates = {{Nanoseconds(0), per_second}};
  model.slo = seconds(1);
  return model;
}

ClusterSpec SpecOf(std::vector<ModelSpec> models, std::uint32_t granules, Nanoseconds length) {
  ClusterSpec spec;
  spec.gpus = {GpuSpec{}};
  spec.truth = TruthSpec::Exact();
  spec.length = length;
  for (std::size_t i = 0; i < models.size(); ++i) {
    spec.replicas.push_back({.model = i, .gpu = 0, .granules = granules});
  }
  spec.models = std::move(models);
  return spec;
}

// The heavy one takes 20 ms on its 30 %, and gets 100 requests a second: it needs 60 %. The light
// one takes 10 ms on its 30 % and gets 25: it needs 7.5 %.
ClusterSpec HeavyAndLight() {
  return SpecOf({ModelOf("heavy", 6, 100), ModelOf("light", 3, 25)}, 30, seconds(20));
}

struct Outcome {
  SimReport report;
  std::size_t refused = 0;
  double ShareAt(std::size_t model, std::size_t second) const {
    return report.models[model].seconds[second].share;
  }
};

Outcome RunOf(const ClusterSpec& spec, const GsliceOptions& options) {
  const Status valid = CheckCluster(spec);
  EXPECT_TRUE(valid) << valid.error().message;
  GsliceController controller(options);
  Outcome outcome;
  outcome.report = ClusterSim(spec).Run(controller);
  outcome.refused = controller.refused();
  return outcome;
}

TEST(GsliceController, SharesFollowWhatModelsNeed) {
  const Outcome outcome = RunOf(HeavyAndLight(), {.demands = {0.3, 0.3}});
  EXPECT_NEAR(outcome.ShareAt(0, 19), 0.60, 0.011);
  EXPECT_NEAR(outcome.ShareAt(1, 19), 0.08, 0.011);
  EXPECT_EQ(outcome.report.moves.size(), 2u) << "then they have what they need";
  for (const SimMove& move : outcome.report.moves) EXPECT_LT(move.at, seconds(4));
  EXPECT_EQ(outcome.refused, 0u);
  // 50 a second before the move. Afterwards all that come.
  EXPECT_NEAR(static_cast<double>(outcome.report.models[0].seconds[0].served), 50, 2);
  EXPECT_NEAR(static_cast<double>(outcome.report.models[0].seconds[18].served), 100, 3);
}

TEST(GsliceController, NothingMovesBeforeTheFirstTuning) {
  const Outcome outcome = RunOf(HeavyAndLight(), {.demands = {0.3, 0.3}, .first = seconds(7)});
  ASSERT_FALSE(outcome.report.moves.empty());
  for (const SimMove& move : outcome.report.moves) EXPECT_GE(move.at, seconds(7));
  EXPECT_DOUBLE_EQ(outcome.ShareAt(0, 5), 0.3);
}

TEST(GsliceController, AModelThatMovedStaysDuringTheHoldDown) {
  ClusterSpec spec = HeavyAndLight();
  spec.models[0].arrivals.rates.push_back({seconds(5), 25});  // needs 15 % from then on
  spec.length = seconds(30);
  const Outcome outcome = RunOf(spec, {.demands = {0.3, 0.3}});
  std::vector<Nanoseconds> moves;
  for (const SimMove& move : outcome.report.moves) {
    if (move.replica == 0) moves.push_back(move.at);
  }
  ASSERT_GE(moves.size(), 2u);
  for (std::size_t i = 1; i < moves.size(); ++i) EXPECT_GE(moves[i] - moves[i - 1], seconds(10));
  EXPECT_LT(outcome.ShareAt(0, 29), 0.35);
}

// Both copies of a model are in memory while its share changes.
TEST(GsliceController, MovesForWhichThereIsNoMemoryAreCounted) {
  ClusterSpec spec = HeavyAndLight();
  spec.costs.resize = ResizeKind::kShadow;
  for (ModelSpec& model : spec.models) {
    model.memory_bytes = 6;
    model.resize = milliseconds(500);
  }
  spec.gpus[0].memory_bytes = 17;
  const Outcome refused = RunOf(spec, {.demands = {0.3, 0.3}});
  EXPECT_GT(refused.refused, 0u);
  EXPECT_TRUE(refused.report.moves.empty());
  EXPECT_DOUBLE_EQ(refused.ShareAt(0, 19), 0.3);
  EXPECT_GT(refused.report.models[0].seconds[19].served, 0u) << "it serves on";
  spec.gpus[0].memory_bytes = 18;
  const Outcome moved = RunOf(spec, {.demands = {0.3, 0.3}});
  EXPECT_NEAR(moved.ShareAt(0, 19), 0.60, 0.011);
}

// The first model needs the whole device. The second one comes with a demand of a half, and needs
// 40 %: less than an even part, so that it gets what it needs.
TEST(GsliceController, OthersMakeRoomForAModelThatStartsAndTakeWhatItLeaves) {
  ClusterSpec spec =
      SpecOf({ModelOf("first", 10, 100), ModelOf("second", 10, 40)}, 100, seconds(30));
  spec.replicas[1].granules = 50;
  spec.models[1].start = seconds(3);
  spec.models[1].stop = seconds(20);
  spec.models[1].load = seconds(1);
  const Outcome outcome = RunOf(spec, {.demands = {1, 0.5}});
  EXPECT_DOUBLE_EQ(outcome.ShareAt(0, 1), 1);
  for (const std::size_t second : {std::size_t{6}, std::size_t{10}, std::size_t{18}}) {
    EXPECT_GE(outcome.ShareAt(0, second), 0.49) << second;
    EXPECT_LE(outcome.ShareAt(0, second), 0.65) << second;
    EXPECT_GE(outcome.ShareAt(1, second), 0.35) << second;
    EXPECT_LE(outcome.ShareAt(1, second), 0.51) << second;
  }
  EXPECT_NEAR(static_cast<double>(outcome.report.models[1].seconds[18].served), 40, 8);
  EXPECT_DOUBLE_EQ(outcome.ShareAt(0, 25), 1);
  EXPECT_DOUBLE_EQ(outcome.ShareAt(1, 25), 0);
}

}  // namespace
}  // namespace lagoon
