#include "sim/placement/relabel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/random.h"
#include "cluster/placement/testing/test_fleet.h"

namespace lagoon {
namespace {

using testing::TestFleet;

// Replicas of `next` that are not in `current`.
std::size_t Moves(const Assignment& current, const Assignment& next) {
  const auto before = PlacesOf(current), after = PlacesOf(next);
  std::vector<std::pair<std::size_t, std::size_t>> come;
  std::ranges::set_difference(after, before, std::back_inserter(come));
  return come.size();
}

std::int64_t Stays(const Assignment& current, const Assignment& next) {
  std::int64_t stays = 0;
  for (const PlacedReplica& a : current.replicas) {
    for (const PlacedReplica& b : next.replicas) {
      if (a.model == b.model && a.gpu == b.gpu) stays += std::min(a.granules, b.granules);
    }
  }
  return stays;
}

TestFleet Fleet(std::size_t models, std::size_t gpus) {
  TestFleet fleet(gpus);
  for (std::size_t i = 0; i < models; ++i) fleet.Add(1, 10, 50);
  return fleet;
}

TEST(Relabel, APermutedCopyMovesNothing) {
  TestFleet fleet = Fleet(6, 3);
  fleet.view.current = {{{0, 0, 20, 1, 1},
                         {1, 0, 30, 1, 1},
                         {2, 1, 10, 1, 1},
                         {3, 1, 40, 1, 1},
                         {4, 2, 25, 1, 1},
                         {5, 2, 25, 1, 1}},
                        {}};
  Assignment next = fleet.view.current;
  for (PlacedReplica& replica : next.replicas) replica.gpu = (replica.gpu + 1) % 3;
  EXPECT_EQ(Relabel(fleet.view, next), fleet.view.current);
}

TEST(Relabel, TwoModelsThatChangePlacesAreTwoMoves) {
  TestFleet fleet = Fleet(4, 2);
  fleet.view.current = {{{0, 0, 30, 1, 1}, {1, 0, 20, 1, 1}, {2, 1, 30, 1, 1}, {3, 1, 20, 1, 1}},
                        {}};
  const Assignment next{{{0, 1, 30, 1, 1}, {1, 0, 20, 1, 1}, {2, 0, 30, 1, 1}, {3, 1, 20, 1, 1}},
                        {}};
  const Assignment named = Relabel(fleet.view, next);
  EXPECT_EQ(Moves(fleet.view.current, named), 2u);
  EXPECT_EQ(Stays(fleet.view.current, named), 60) << "the larger ones stay";
}

TEST(Relabel, GpusOfOtherSizesKeepTheirNames) {
  TestFleet fleet = Fleet(2, 3);
  fleet.view.gpus[1].granules = 60;
  fleet.view.gpus[2].memory_bytes /= 2;
  fleet.view.current = {{{0, 1, 50, 1, 1}, {1, 2, 50, 1, 1}}, {}};
  const Assignment next{{{0, 0, 50, 1, 1}, {1, 1, 60, 1, 1}}, {}};
  EXPECT_EQ(Relabel(fleet.view, next), next);
}

TEST(Relabel, WithoutAPresentAssignmentAllStaysAsItWas) {
  TestFleet fleet = Fleet(3, 4);
  const Assignment next{{{0, 3, 10, 1, 1}, {1, 1, 10, 1, 0.5}, {1, 2, 10, 1, 0.5}}, {{2, "no"}}};
  EXPECT_EQ(Relabel(fleet.view, next), next);
}

// Against all permutations of five GPUs; the result passes CheckAssignment where `next` does.
TEST(Relabel, KeepsTheMostOfAllRenamings) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    TestFleet fleet = Fleet(7, 5);
    const auto draw = [&] {
      Assignment drawn;
      for (std::size_t model = 0; model < 7; ++model) {
        drawn.replicas.push_back({model, random.Below(5), 1 + random.Below(7), 1, 1});
      }
      SortReplicas(drawn);
      return drawn;
    };
    fleet.view.current = draw();
    const Assignment next = draw();
    ASSERT_TRUE(CheckAssignment(fleet.view, next));
    std::vector<std::size_t> names(5);
    std::iota(names.begin(), names.end(), 0);
    std::int64_t most = 0;
    do {
      Assignment renamed = next;
      for (PlacedReplica& replica : renamed.replicas) replica.gpu = names[replica.gpu];
      most = std::max(most, Stays(fleet.view.current, renamed));
    } while (std::ranges::next_permutation(names).found);
    const Assignment named = Relabel(fleet.view, next);
    EXPECT_EQ(Stays(fleet.view.current, named), most) << seed;
    EXPECT_TRUE(CheckAssignment(fleet.view, named)) << seed;
  }
}

// More GPUs than are compared exactly: a permuted copy is still found.
TEST(Relabel, ManyGpusAreRenamedToo) {
  TestFleet fleet = Fleet(100, 100);
  for (std::size_t i = 0; i < 100; ++i) {
    fleet.view.current.replicas.push_back({i, i, 10, 1, 1});
  }
  Assignment next = fleet.view.current;
  for (PlacedReplica& replica : next.replicas) replica.gpu = (replica.gpu * 37 + 5) % 100;
  SortReplicas(next);
  EXPECT_EQ(Relabel(fleet.view, next), fleet.view.current);
  next.replicas.resize(50);
  std::set<std::size_t> gpus;
  for (const PlacedReplica& replica : Relabel(fleet.view, next).replicas) gpus.insert(replica.gpu);
  EXPECT_EQ(gpus.size(), 50u);
}

}  // namespace
}  // namespace lagoon
