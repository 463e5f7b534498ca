#include "sim/placement/grouped_placer.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/placement/testing/test_fleet.h"
#include "sim/placement/comparators.h"

namespace lagoon {
namespace {

using testing::TestFleet;

std::unique_ptr<Placer> Lagoon() { return *MakeAnyPlacer("lagoon"); }

// Twelve models on five GPUs: groups of two, two and one.
TEST(GroupedPlacer, EachModelStaysInAGroupAndAllGroupsGetAsMuchForEachGpu) {
  TestFleet fleet(5);
  for (int i = 0; i < 12; ++i) fleet.Add(2 + i, 20, 200);
  GroupedPlacer placer(2, Lagoon);
  std::map<std::size_t, std::size_t> group_of;
  for (int decision = 0; decision < 3; ++decision) {
    const Assignment placed = placer.Place(fleet.view);
    ASSERT_TRUE(CheckAssignment(fleet.view, placed));
    std::map<std::size_t, double> time;
    for (const PlacedReplica& replica : placed.replicas) {
      const std::size_t group = replica.gpu / 2;
      EXPECT_EQ(group_of.emplace(replica.model, group).first->second, group);
      time[group] += replica.fraction * (2 + static_cast<double>(replica.model));
    }
    EXPECT_NEAR(time[0], time[1], 6);
    EXPECT_NEAR(time[0], 2 * time[2], 12);
    fleet.view.current = placed;
    // No reason to deal anew, though now small models need more than large ones.
    for (std::size_t i = 0; i < 12; ++i) fleet.view.models[i].rate = i < 6 ? 40 : 2;
  }
}

TEST(GroupedPlacer, DealsAnewWhenModelsCome) {
  TestFleet fleet(2);
  fleet.Add(10, 20, 200);
  GroupedPlacer placer(1, Lagoon);
  EXPECT_EQ(placer.Place(fleet.view).replicas.size(), 1u);
  fleet.Add(10, 20, 200);
  const Assignment both = placer.Place(fleet.view);
  ASSERT_EQ(both.replicas.size(), 2u);
  EXPECT_NE(both.replicas[0].gpu, both.replicas[1].gpu);
}

// A group of one placer decides as the placer does.
TEST(GroupedPlacer, OneGroupIsThePlacerItself) {
  TestFleet fleet(3);
  for (int i = 0; i < 6; ++i) fleet.Add(3 + 2 * i, 30, 100);
  GroupedPlacer placer(4, Lagoon);
  EXPECT_EQ(placer.Place(fleet.view), Lagoon()->Place(fleet.view));
  EXPECT_EQ(placer.name(), "lagoon");
}

// No group of one GPU can hold this one.
TEST(GroupedPlacer, NamesWhatAGroupCannotHold) {
  TestFleet fleet(2);
  fleet.Add(10, 20, 200);
  fleet.Add(10, 20, 200).memory_bytes = 100'000'000'000;
  GroupedPlacer placer(1, Lagoon);
  const Assignment placed = placer.Place(fleet.view);
  ASSERT_EQ(placed.refused.size(), 1u);
  EXPECT_EQ(placed.refused[0].model, 1u);
  EXPECT_TRUE(CheckAssignment(fleet.view, placed));
}

}  // namespace
}  // namespace lagoon
