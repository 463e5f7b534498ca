#include "serving/fleet/fleet_placers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"

namespace lagoon {
namespace {

/// A row takes 10 ms on the whole GPU.
LatencyModel TenMilliseconds() {
  return {*Surface::FromFormula({.row_ms = 10, .fixed = 0}), LoadLine(), LoadLine(),
          SlowdownTerms()};
}

class FleetPlacersTest : public ::testing::Test {
 protected:
  void AddModel(double rate, std::int64_t bytes = 10) {
    ModelView model;
    model.name = std::string(1, static_cast<char>('a' + view_.models.size()));
    model.slo = std::chrono::milliseconds(50);
    model.rate = rate;
    model.latency = &latency_;
    model.memory_bytes = bytes;
    view_.models.push_back(model);
  }
  void AddGpus(std::size_t count, std::int64_t bytes = 100) {
    view_.gpus.insert(view_.gpus.end(), count, GpuView{100, bytes});
  }
  Assignment Place(Placer& placer) {
    const Assignment placed = placer.Place(view_);
    const Status checked = CheckAssignment(view_, placed);
    EXPECT_TRUE(checked) << checked.error().message;
    return placed;
  }
  double DemandOn(const Assignment& placed, std::size_t gpu) const {
    double demand = 0;
    for (const PlacedReplica& replica : placed.replicas) {
      if (replica.gpu == gpu) demand += replica.fraction * view_.models[replica.model].rate / 100;
    }
    return demand;
  }

  const LatencyModel latency_ = TenMilliseconds();
  PlacementView view_;
  StaticPlacer static_;
  LeastLoadedPlacer least_;
};

TEST_F(FleetPlacersTest, StaticKeepsReplicasAndPlacesModelsThatHaveNone) {
  for (int i = 0; i < 3; ++i) AddModel(50);
  AddGpus(2);
  view_.current = {{{0, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}, {}};
  const Assignment placed = Place(static_);
  ASSERT_EQ(placed.replicas.size(), 3u);
  EXPECT_EQ(placed.replicas[0].gpu, 1u);
  EXPECT_EQ(placed.replicas[1].gpu, 1u);
  EXPECT_EQ(placed.replicas[2].gpu, 0u) << "the GPU with the fewest replicas";
}

TEST_F(FleetPlacersTest, AModelThatNoGpuCanHoldIsRefusedByName) {
  AddModel(1, 101);
  AddGpus(2);
  for (Placer* placer : {static_cast<Placer*>(&static_), static_cast<Placer*>(&least_)}) {
    const Assignment placed = Place(*placer);
    ASSERT_EQ(placed.refused.size(), 1u) << placer->name();
    EXPECT_NE(placed.refused.front().reason.find("101 bytes"), std::string::npos);
  }
}

TEST_F(FleetPlacersTest, LeastLoadedBalancesTheDemands) {
  for (const double rate : {40, 30, 20, 10}) AddModel(rate);
  AddGpus(2);
  const Assignment placed = Place(least_);
  EXPECT_NEAR(DemandOn(placed, 0), 0.5, 1e-9);
  EXPECT_NEAR(DemandOn(placed, 1), 0.5, 1e-9);
}

TEST_F(FleetPlacersTest, LeastLoadedGivesAModelWithMuchDemandSeveralReplicas) {
  AddModel(130);  // 1.3 GPUs
  AddModel(1);
  AddGpus(3);
  const Assignment placed = Place(least_);
  EXPECT_EQ(std::ranges::count(placed.replicas, 0u, &PlacedReplica::model), 2);
  for (std::size_t gpu = 0; gpu < 3; ++gpu) {
    EXPECT_LE(DemandOn(placed, gpu), LeastLoadedPlacer::kMostOfOne);
  }
}

TEST_F(FleetPlacersTest, LeastLoadedDoesNotMoveForALittle) {
  AddModel(30);
  AddModel(28);
  AddGpus(2);
  view_.current = {{{0, 1, 1, 1, 1}, {1, 0, 1, 1, 1}}, {}};
  const Assignment placed = Place(least_);
  EXPECT_EQ(placed.replicas[0].gpu, 1u);
  EXPECT_EQ(placed.replicas[1].gpu, 0u);
}

TEST_F(FleetPlacersTest, EveryPlacementOfRandomFleetsIsValid) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    view_ = {};
    AddGpus(1 + random.Below(4), 20 + random.Below(80));
    const std::uint32_t models = random.Below(12);
    for (std::uint32_t i = 0; i < models; ++i) AddModel(random.Uniform(0, 200), random.Below(60));
    view_.current = Place(least_);
    std::erase_if(view_.current.replicas,
                  [&](const PlacedReplica& replica) { return replica.model % 3 == 0; });
    view_.current.refused.clear();
    Place(static_);
    Place(least_);
    EXPECT_EQ(Place(least_), Place(least_)) << "deterministic";
  }
}

}  // namespace
}  // namespace lagoon
