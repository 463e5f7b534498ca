#include "sim/placement/comparators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "cluster/placement/testing/test_fleet.h"

namespace lagoon {
namespace {

using testing::TestFleet;

std::unique_ptr<Placer> Make(const std::string& name) {
  auto placer = MakeAnyPlacer(name);
  EXPECT_TRUE(placer.has_value());
  return *std::move(placer);
}

std::set<std::size_t> GpusOf(const Assignment& assignment, std::size_t model) {
  std::set<std::size_t> gpus;
  for (const PlacedReplica& replica : assignment.replicas) {
    if (replica.model == model) gpus.insert(replica.gpu);
  }
  return gpus;
}

// What every placer must do, on fleets that are drawn at random.
class EveryPlacer : public ::testing::TestWithParam<std::string> {};

TestFleet RandomFleet(std::uint32_t seed) {
  Random random(seed);
  TestFleet fleet(1 + random.Below(6), 10 + random.Below(90));
  const std::uint32_t models = 1 + random.Below(12);
  for (std::uint32_t i = 0; i < models; ++i) {
    const double ms = random.Uniform(0.5, 10);
    ModelView& model = fleet.Add(ms, random.Uniform(0, 1500) / ms, random.Uniform(0.5, 20) * ms,
                                 random.Uniform(0, 0.5));
    model.memory_bytes = static_cast<std::int64_t>(random.Uniform(0, 12e9));
    model.row_bytes = static_cast<std::int64_t>(random.Uniform(0, 1e8));
    model.most_rows = 1 + random.Below(40);
    if (random.Below(6) == 0) model.rate = 0;
    if (random.Below(8) == 0) model.memory_bytes = 50'000'000'000;  // no GPU holds it
  }
  return fleet;
}

TEST_P(EveryPlacer, KeepsTheRulesOfAssignmentsOnAnyFleet) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    TestFleet fleet = RandomFleet(seed);
    ASSERT_TRUE(CheckView(fleet.view).has_value());
    const auto placer = Make(GetParam());
    Random random(seed);
    for (int decision = 0; decision < 4; ++decision) {
      const Assignment next = placer->Place(fleet.view);
      const Status checked = CheckAssignment(fleet.view, next);
      ASSERT_TRUE(checked.has_value()) << seed << ": " << checked.error().message;
      EXPECT_TRUE(std::ranges::is_sorted(next.replicas, {}, [](const PlacedReplica& replica) {
        return std::pair(replica.model, replica.gpu);
      }));
      fleet.view.current = next;
      for (ModelView& model : fleet.view.models) model.rate *= random.Uniform(0.7, 1.4);
    }
  }
}

TEST_P(EveryPlacer, IsDeterministic) {
  for (std::uint32_t seed = 100; seed < 110; ++seed) {
    const TestFleet fleet = RandomFleet(seed);
    EXPECT_EQ(Make(GetParam())->Place(fleet.view), Make(GetParam())->Place(fleet.view));
  }
}

TEST_P(EveryPlacer, RefusesAModelThatNoGpuHoldsByName) {
  TestFleet fleet(2);
  fleet.Add(2, 10, 100);
  fleet.Add(2, 10, 100).memory_bytes = 41'000'000'000;
  const Assignment assignment = Make(GetParam())->Place(fleet.view);
  ASSERT_EQ(assignment.refused.size(), 1u);
  EXPECT_EQ(assignment.refused[0].model, 1u);
  EXPECT_NE(assignment.refused[0].reason.find("'model1'"), std::string::npos);
  EXPECT_EQ(GpusOf(assignment, 0).size(), 1u);
}

TEST_P(EveryPlacer, AnEmptyFleetIsNoError) {
  TestFleet fleet(2);
  EXPECT_EQ(Make(GetParam())->Place(fleet.view), Assignment{});
}

TEST_P(EveryPlacer, TwoHeavyModelsGetAGpuEach) {
  TestFleet fleet(2);
  // Each needs about three quarters of a GPU.
  for (int i = 0; i < 2; ++i) fleet.Add(10, 200, 60);
  const Assignment assignment = Make(GetParam())->Place(fleet.view);
  EXPECT_NE(GpusOf(assignment, 0), GpusOf(assignment, 1));
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const PlacerInfo& info : AllPlacers()) names.push_back(info.name);
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& tested) {
  std::string name = tested.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Placement, EveryPlacer, ::testing::ValuesIn(AllNames()), TestName);

// Gpulet, iGniter and Usher plan every ten decisions, or at each one.
TEST(MakeAnyPlacer, EveryDecisionIsANewPlanIfAskedFor) {
  for (const bool every : {false, true}) {
    auto placer = MakeAnyPlacer("igniter", {.every_decision = every});
    ASSERT_TRUE(placer.has_value());
    TestFleet fleet(4);
    fleet.Add(4, 20, 80);
    const std::uint32_t before = (*placer)->Place(fleet.view).replicas[0].granules;
    fleet.view.models[0].rate = 150;
    EXPECT_EQ((*placer)->Place(fleet.view).replicas[0].granules > before, every);
  }
}

TEST(MakeAnyPlacer, AnUnknownNameIsAnErrorWithTheList) {
  const auto placer = MakeAnyPlacer("best");
  ASSERT_FALSE(placer.has_value());
  EXPECT_EQ(placer.error().code, ErrorCode::kNotFound);
  EXPECT_NE(placer.error().message.find("'best'"), std::string::npos);
  EXPECT_NE(placer.error().message.find("lagoon, usher"), std::string::npos);
}

}  // namespace
}  // namespace lagoon
