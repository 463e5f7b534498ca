#include "sim/placement/gslice_placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cluster/placement/testing/test_fleet.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using testing::TestFleet;

TEST(ToParts, AShareBecomesTheNextPartAndTheLargestGiveWay) {
  EXPECT_THAT(ToParts({0.1, 0.4, 0.45}), ElementsAre(0.2, 0.4, 0.4)) << "0.2 + 0.4 + 0.5 > 1";
  EXPECT_THAT(ToParts({0.21}), ElementsAre(0.4));
  EXPECT_THAT(ToParts({0.2}), ElementsAre(0.2));
  EXPECT_THAT(ToParts({1, 1}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(ToParts({0.2, 0.2, 0.2, 0.2, 0.2}), ElementsAre(0.2, 0.2, 0.2, 0.2, 0.2));
  EXPECT_TRUE(ToParts({}).empty());
  EXPECT_EQ(GranulesOfPart(0.2, 54), 10u);
  EXPECT_EQ(GranulesOfPart(0.2, 1), 1u);
}

std::uint32_t Sum(const Assignment& assignment) {
  std::uint32_t sum = 0;
  for (const PlacedReplica& replica : assignment.replicas) sum += replica.granules;
  return sum;
}

// Two light models on a GPU: ours hands out all of it, the paper's leaves the rest idle.
TEST(GslicePlacer, AsInThePaperTheSurplusStaysIdleAndSharesAreParts) {
  TestFleet fleet(1, 100);
  for (int i = 0; i < 2; ++i) fleet.Add(4, 10, 100);
  const auto settle = [&](GslicePlacer& placer) {
    fleet.view.current = {};
    for (int i = 0; i < 40; ++i) {
      fleet.view.current = placer.Place(fleet.view);
      EXPECT_TRUE(CheckAssignment(fleet.view, fleet.view.current));
    }
    return fleet.view.current;
  };
  GslicePlacer fair, paper({.busy = 1, .paper = true});
  EXPECT_EQ(Sum(settle(fair)), 100u);
  const Assignment parts = settle(paper);
  EXPECT_LT(Sum(parts), 100u);
  for (const PlacedReplica& replica : parts.replicas) {
    EXPECT_TRUE((std::set<std::uint32_t>{20, 40, 50, 60, 80, 100}).contains(replica.granules))
        << replica.granules;
  }
}

// What is measured counts: batches that take longer than the SLO allows ask for more.
TEST(GslicePlacer, AsInThePaperTimesAreMeasured) {
  const auto share = [](double measured_ms) {
    TestFleet fleet(1, 100);
    fleet.Add(4, 10, 100).measured_ms = measured_ms;
    GslicePlacer paper({.busy = 1, .paper = true});
    for (int i = 0; i < 11; ++i) fleet.view.current = paper.Place(fleet.view);
    return fleet.view.current.replicas[0].granules;
  };
  EXPECT_GT(share(90), share(5));
}

TEST(GslicePlacer, AsInThePaperAGpuHasFiveModelsAtMost) {
  TestFleet fleet(1, 100);
  for (int i = 0; i < 7; ++i) fleet.Add(1, 1, 100);
  GslicePlacer paper({.paper = true});
  const Assignment assignment = paper.Place(fleet.view);
  EXPECT_EQ(assignment.replicas.size(), 5u);
  EXPECT_EQ(assignment.refused.size(), 2u);
}

}  // namespace
}  // namespace lagoon
